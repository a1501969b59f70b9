"use strict";

// The address that the start prints ends in the token, which browsers do not send: it goes into the form.
const token = document.getElementById("token");
if (token && location.hash.length > 1) {
  token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("name").focus();
}
