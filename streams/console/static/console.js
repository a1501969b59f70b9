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

// A list asks every 15 s for the number of answers that have arrived since, while it is looked at.
const news = document.querySelector("[data-new]");
const ask = async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(news.dataset.new, { redirect: "error", signal: AbortSignal.timeout(10_000) });
    const count = answer.ok ? Number(await answer.text()) : 0;
    if (!count) return;
    news.firstElementChild.textContent = `${count.toLocaleString("en")} new or newly judged: show`;
    news.hidden = false;
  } catch {
    // The console is away; the next question may reach it.
  }
};
if (news) {
  setInterval(ask, 15_000);
  document.addEventListener("visibilitychange", ask);
}

// Times are in UTC; with zone=local in the address in this browser's zone, also on the pages that this one leads to.
const zone = document.getElementById("zone");
const isLocal = new URLSearchParams(location.search).get("zone") === "local";
const withZone = (address, is) => {
  const url = new URL(address, location.href);
  if (is) url.searchParams.set("zone", "local");
  else url.searchParams.delete("zone");
  return url.pathname + url.search + url.hash;
};
if (isLocal) {
  const two = { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const shown = new Intl.DateTimeFormat("sv-SE", { year: "numeric", ...two, timeZoneName: "short" });
  for (const time of document.querySelectorAll("time")) time.textContent = shown.format(new Date(time.dateTime));
  for (const link of document.querySelectorAll('a[href^="/"]')) link.href = withZone(link.href, true);
  for (const form of document.querySelectorAll('form[method="get"]')) {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name: "zone", value: "local" });
    form.append(field);
  }
}
if (zone && document.querySelector("time")) {
  const [now, link] = [zone.querySelector("b"), zone.querySelector("a")];
  now.textContent = isLocal ? "local time" : "UTC";
  link.textContent = isLocal ? "Show UTC" : "Show local time";
  link.href = withZone(location.href, !isLocal);
  zone.hidden = false;
}
