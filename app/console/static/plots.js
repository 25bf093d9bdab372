/* Draws the plots of a page with uPlot, from the values in the page, and again when they or the colors change.
 *
 * The values are in `data-plot`: seconds since 1970, then one list for each line, with null for a minute without a
 * sample. The summary and the table beside each plot say the same, so a reader without this script misses nothing.
 */
"use strict";
(() => {
  const drawn = new Map();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => {
    if (value === null || value === undefined) return "–";
    for (const [power, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      const unit = letter === "k" ? 1e3 : power;
      if (Math.abs(value) >= power) return `${Number((value / unit).toPrecision(3))}${letter}`;
    }
    return Number.isInteger(value) || value >= 10 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
  };
  const duration = (value) => {
    if (value === null || value === undefined) return "–";
    const parts = [];
    let left = Math.round(value);
    for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
      const amount = Math.floor(left / length);
      left %= length;
      if (amount) parts.push(`${amount} ${unit}`);
    }
    return parts.slice(0, 2).join(" ") || "0 s";
  };
  const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];
  const FORMS = { count: short, seconds: duration };

  const tooltip = (labels, form) => {
    let box;
    return { hooks: {
      init: (plot) => { box = document.createElement("div"); box.className = "tip"; box.hidden = true; plot.over.append(box); },
      setCursor: (plot) => {
        const { idx, left } = plot.cursor;
        box.hidden = idx === null || idx === undefined || left < 0;
        if (box.hidden) return;
        const at = new Date(plot.data[0][idx] * 1000).toISOString().slice(11, 16);
        box.replaceChildren(`${at} UTC`);
        labels.forEach((label, line) => {
          const row = document.createElement("span");
          row.className = `legend legend-${line + 1}`;
          row.textContent = `${label} ${form(plot.data[line + 1][idx])}`;
          box.append(row);
        });
        const width = plot.over.clientWidth;
        box.style.transform = `translateX(${Math.min(Math.max(left - 60, 0), width - box.offsetWidth)}px)`;
      },
    } };
  };

  const draw = (canvas) => {
    const data = JSON.parse(canvas.dataset.plot);
    const labels = JSON.parse(canvas.dataset.labels);
    const form = FORMS[canvas.dataset.unit] || short;
    drawn.get(canvas)?.plot.destroy();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: canvas.parentElement.clientWidth - 28,
      height: 180,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high || 0, canvas.dataset.unit === "seconds" ? 10 : 1) * 1.1] } },
      axes: [
        { ...axis, space: 70, size: 24, gap: 4, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toISOString().slice(11, 16)) },
        { ...axis, size: 52, space: 36, ...(canvas.dataset.unit === "seconds" ? { incrs: STEPS } : {}), values: (_, ticks) => ticks.map((value) => (value < 0 ? "" : form(value))) },
      ],
      series: [{}, ...labels.map((label, line) => ({
        label, stroke: color(`--plot-${line + 1}`), width: 1.75, spanGaps: false, points: { size: 4, show: data[line + 1].filter((v) => v !== null).length < 3 },
        fill: labels.length === 1 ? `${color("--plot-1")}1f` : undefined,
      }))],
      plugins: [tooltip(labels, form)],
    };
    canvas.replaceChildren();
    canvas.classList.add("drawn");
    drawn.set(canvas, { plot: new uPlot(options, data, canvas), source: canvas.dataset.plot, width: options.width });
  };

  const all = (again) => document.querySelectorAll(".canvas[data-plot]").forEach((canvas) => {
    const last = drawn.get(canvas);
    const width = canvas.parentElement.clientWidth - 28;
    if (again || !last || last.source !== canvas.dataset.plot || last.width !== width) draw(canvas);
  });

  all(false);
  document.addEventListener("htmx:after:swap", () => all(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all(true));
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => all(false), 100); });
})();
