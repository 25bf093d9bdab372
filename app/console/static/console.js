/* The script of every page. Pages work without it: it refreshes their live parts, and closes the menu.
 *
 * An element with `hx-trigger="refresh"` is a live part. Every 5 seconds, while the page is visible, it gets the event
 * `refresh`, and htmx replaces what has changed in it. The header says whether the numbers are live.
 */
"use strict";
(() => {
  const EVERY_MS = 5000;
  const live = document.getElementById("live");
  const parts = () => document.querySelectorAll("[hx-trigger~='refresh']");
  let lost = false;

  const show = (state, text) => {
    if (!live || live.dataset.liveState === state) return;
    live.dataset.liveState = state;
    live.textContent = text;
  };

  const refresh = () => {
    if (document.hidden || !window.htmx) return;
    parts().forEach((part) => {
      // A part with an open form or a selection in it is left alone, so that nothing moves under the reader's hands.
      if (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
      window.htmx.trigger(part, "refresh");
    });
  };

  if (live && parts().length) {
    show("on", "Live");
    setInterval(refresh, EVERY_MS);
    document.addEventListener("visibilitychange", () => document.hidden || refresh());
    const fail = () => { lost = true; show("lost", "Not live: the gateway does not answer"); };
    document.addEventListener("htmx:error", fail);
    document.addEventListener("htmx:response:error", fail);
    document.addEventListener("htmx:after:swap", () => { lost = false; show("on", "Live"); });
    window.addEventListener("offline", fail);
  }

  const menu = document.querySelector("details.menu");
  if (menu) {
    document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }
})();
