/* The script of every page. Pages work without it: it refreshes live parts, closes the menu, sends a form once.
 *
 * An element with `hx-trigger="refresh"` is a live part. Every 5 seconds, or `data-every`, while the page is visible,
 * it gets the event `refresh`, and htmx changes what is new in it. The header says whether the numbers are live.
 */
"use strict";
(() => {
  const EVERY_SECONDS = 5;
  const live = document.getElementById("live");
  const refreshed = new WeakMap();
  const parts = () => document.querySelectorAll("[hx-trigger~='refresh']");

  const show = (state, text) => {
    if (!live || live.textContent === text) return;
    live.dataset.liveState = state;
    live.textContent = text;
  };

  const refresh = () => {
    if (document.hidden || !window.htmx) return;
    const now = performance.now();
    parts().forEach((part) => {
      // Nothing moves under the reader's hands: a part in which somebody types or has opened a form waits.
      if (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
      if (part.querySelector("details.action[open]")) return;
      const every = Number(part.dataset.every || EVERY_SECONDS) * 1000;
      if (now - (refreshed.get(part) ?? 0) < every - 500) return;
      refreshed.set(part, now);
      window.htmx.trigger(part, "refresh");
    });
  };

  const badge = () => {
    const count = Number(document.querySelector("[data-alerts]")?.dataset.alerts ?? NaN);
    const link = document.querySelector(".sections a[href='/console']");
    if (!link || Number.isNaN(count)) return;
    link.querySelector(".badge")?.remove();
    if (!count) return;
    const made = document.createElement("span");
    made.className = "badge";
    made.title = "Things that need attention";
    made.textContent = count;
    link.append(" ", made);
  };

  if (live && parts().length) {
    show("on", "Live");
    parts().forEach((part) => refreshed.set(part, performance.now()));
    setInterval(refresh, EVERY_SECONDS * 1000);
    document.addEventListener("visibilitychange", refresh);
    const fail = () => show("lost", "Not live: the gateway does not answer");
    document.addEventListener("htmx:error", fail);
    document.addEventListener("htmx:after:swap", (event) => {  // also after an error, which changes nothing
      if (event.detail.ctx.response.status >= 400) return show("lost", "Not live: load the page again to see why");
      show("on", "Live"); badge();
    });
    window.addEventListener("offline", fail);
  }

  // A second press while the first one is on its way would repeat the action, and show the error of the repetition.
  let sent = -Infinity;
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.timeStamp - sent < 10_000) event.preventDefault();
    else sent = event.timeStamp;
  });
  window.addEventListener("pageshow", () => { sent = -Infinity; });

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
