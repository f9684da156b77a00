// What links and forms cannot do: hidden tabs do not poll, and a part that renews itself keeps what its reader has opened
// and typed.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const polled = !event.detail.requestConfig.triggeringEvent;
  if (document.hidden && polled) event.preventDefault();
});

const FIELDS = "input[id]:not([type=hidden]):not([type=checkbox]):not([type=radio]), select[id], textarea[id]";
let kept = null;

document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  kept = {
    id: part.id,
    open: Array.from(part.querySelectorAll("details[open][id]"), (one) => one.id),
    closed: Array.from(part.querySelectorAll("details[id]:not([open])"), (one) => one.id),
    typed: Array.from(part.querySelectorAll(FIELDS), (one) => [one.id, one.value]),
    log: part.querySelector(".log")?.scrollTop,
  };
});

document.addEventListener("htmx:afterSwap", () => {
  const part = kept && document.getElementById(kept.id);
  if (!part) return;
  for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
  for (const id of kept.closed) document.getElementById(id)?.removeAttribute("open");
  for (const [id, value] of kept.typed) {
    const field = document.getElementById(id);
    if (field && field.value !== value) field.value = value;
  }
  const log = part.querySelector(".log");
  if (log && kept.log !== undefined) log.scrollTop = kept.log;
});

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) window.location.reload();
});
