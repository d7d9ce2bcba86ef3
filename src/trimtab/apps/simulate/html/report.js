"use strict";
// Hover only: everything is readable without this script.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-pressed", String(dark())); };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  label();

  const show = (event, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
  };
  const hide = () => { tip.hidden = true; };
  const percent = (value) => (value * 100).toFixed(value < 0.1 ? 2 : 1) + " %";

  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const chart = data.charts[svg.dataset.chart];
    const cross = svg.querySelector(".cross");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const left = +svg.dataset.left, right = +svg.dataset.right, count = chart.labels.length;
      const share = Math.min(Math.max((x - left) / (right - left), 0), 1);
      const at = chart.steps ? Math.min(Math.floor(share * count), count - 1) : Math.round(share * (count - 1));
      const line = left + (right - left) * (chart.steps ? (at + 0.5) / count : at / Math.max(count - 1, 1));
      cross.setAttribute("x1", line);
      cross.setAttribute("x2", line);
      cross.setAttribute("visibility", "visible");
      const rows = chart.series.map((each) => [each.values[at], each.name]).sort((a, b) => b[0] - a[0]);
      show(event, chart.labels[at] + "\n" + rows.map(([value, name]) => percent(value) + "  " + name).join("\n"));
    });
    svg.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); hide(); });
  }

  const levels = new Map(data.palette.map((each, index) => [each.join(), index]));
  for (const image of document.querySelectorAll("img.map")) {
    let pixels = null;
    image.addEventListener("pointermove", (event) => {
      const width = image.naturalWidth, height = image.naturalHeight;
      if (!pixels) {
        const canvas = document.createElement("canvas");
        canvas.width = width;
        canvas.height = height;
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        pixels = context.getImageData(0, 0, width, height).data;
      }
      const box = image.getBoundingClientRect();
      const column = Math.min(Math.max(Math.floor((event.clientX - box.left) / box.width * width), 0), width - 1);
      const row = Math.min(Math.max(Math.floor((event.clientY - box.top) / box.height * height), 0), height - 1);
      const at = (row * width + column) * 4;
      const level = levels.get([pixels[at], pixels[at + 1], pixels[at + 2]].join());
      const known = pixels[at + 3] > 0 && level !== undefined;
      const map = data.maps[image.dataset.map];
      show(event, map.nodes[row] + ", " + map.times[column] + "\n" + (known ? "about " + Math.round(level * data.step * 1000) / 10 + " % of CPU" : "not present"));
    });
    image.addEventListener("pointerleave", hide);
  }
})();
