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

// On a list, j and k go from answer to answer; the browser's own Enter opens one.
const rows = [...document.querySelectorAll("[data-row]")];
document.addEventListener("keydown", (event) => {
  const step = { j: 1, k: -1 }[event.key];
  if (!step || !rows.length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + step))].focus();
});

// Ids and commands get a button that copies them.
for (const text of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "copied";
  });
  text.after(" ", button);
}
