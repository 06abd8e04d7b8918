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

// A menu closes when something else is clicked, or with Escape.
const closeMenus = (but) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== but) menu.open = false;
};
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// What is wrong in a section that is folded is shown, so that the browser can say it there.
document.addEventListener("invalid", (event) => {
  const section = event.target.closest("details");
  if (section) section.open = true;
}, true);

for (const place of document.querySelectorAll("details[data-json]")) {
  const show = async () => {
    const text = place.querySelector("pre");
    if (!place.open || !text.hidden) return;
    text.hidden = false;
    try {
      const answer = await fetch(place.dataset.json, { headers: { Accept: "application/json" } });
      text.textContent = JSON.stringify(await answer.json(), null, 2);
    } catch {
      text.textContent = "It could not be fetched; reload the page and try again.";
    }
  };
  place.addEventListener("toggle", show);
  if (location.hash === `#${place.id}`) place.open = true;
}

const COLORS = ["--blue", "--good", "--warn", "--bad", "--soft"];
for (const place of document.querySelectorAll("[data-chart]")) {
  if (!window.uPlot) break;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const isTime = Boolean(place.dataset.time);
  const data = JSON.parse(place.dataset.chart);
  const labels = (place.dataset.labels || place.dataset.label).split("|");
  const across = isTime ? axis : { ...axis, values: (_, splits) => splits.map((value) => `${value} ${place.dataset.unit || "s"}`) };
  const size = () => ({ width: place.clientWidth, height: place.clientHeight - 34 });
  const chart = new window.uPlot({
    ...size(),
    scales: { x: { time: isTime }, y: { range: (_, least, most) => [Math.min(0, least), most > 0 ? most * 1.1 : 1] } },
    axes: [across, { ...axis, size: 56 }],
    series: [
      { label: isTime ? "when" : place.dataset.across || "seconds" },
      ...labels.map((label, index) => ({ label, stroke: color(COLORS[index % COLORS.length]), width: 2, points: { show: data[0].length < 40, size: 6 } })),
    ],
  }, data, place);
  new ResizeObserver(() => chart.setSize(size())).observe(place);
}
