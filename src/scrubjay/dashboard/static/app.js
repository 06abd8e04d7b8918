// What the pages do beyond links and forms: copy, drop, ask before deleting, draw. Each works on its own.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue; // only where the browser lets pages copy
  button.hidden = false;
  button.addEventListener("click", async () => {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser did not allow it";
    }
    setTimeout(() => { button.textContent = before; }, 2000);
  });
}

// On the document, because parts of the page are replaced while it is open.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

for (const zone of document.querySelectorAll(".drop")) {
  const input = zone.querySelector("input[type=file]");
  const over = (event, is) => { event.preventDefault(); zone.classList.toggle("over", is); };
  zone.addEventListener("dragover", (event) => over(event, true));
  zone.addEventListener("dragleave", (event) => over(event, false));
  zone.addEventListener("drop", (event) => {
    over(event, false);
    if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
  });
}

for (const place of document.querySelectorAll("[data-chart]")) {
  if (!window.uPlot) break;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const size = () => ({ width: place.clientWidth, height: place.clientHeight - 34 });
  const chart = new window.uPlot({
    ...size(),
    scales: { x: { time: false } },
    axes: [{ ...axis, values: (_, splits) => splits.map((value) => `${value} ${place.dataset.unit || "s"}`) }, axis],
    series: [{ label: place.dataset.across || "seconds" }, { label: place.dataset.label, stroke: color("--blue"), width: 2, points: { show: false } }],
  }, JSON.parse(place.dataset.chart), place);
  new ResizeObserver(() => chart.setSize(size())).observe(place);
}
