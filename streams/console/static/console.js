"use strict";

// The address that the start prints ends in the token, which browsers do not send: it goes into the form.
const token = document.getElementById("token");
if (token && location.hash.length > 1) {
  token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("name").focus();
}

// A key presses the button that names it, unless something is being written.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  document.querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
});
