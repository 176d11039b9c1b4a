// A table of numbers as shades of one colour, with the numbers where they fit.
function heatMap(box, counts, noun) {
  const [devices, labels] = [counts.length, counts[0].length];
  const width = widthOf(box);
  const left = 44;
  const cellWidth = Math.min(64, (width - left - 2) / labels);
  const cellHeight = Math.max(4, Math.min(26, Math.floor(560 / devices)));
  const height = devices * cellHeight + 26;
  const top = Math.max(...counts.flat(), 1);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label":
    `Samples of ${labels} ${noun}s on ${devices} devices, from ${Math.min(...counts.flat())} to ${top}` });
  for (let label = 0; label < labels; label++)
    if (cellWidth > 14 || label % 10 === 0)
      svg.append(shape("text", { class: "tick", x: left + (label + 0.5) * cellWidth, y: 14, "text-anchor": "middle" }, String(label)));
  counts.forEach((row, device) => {
    const y = 20 + device * cellHeight;
    if (cellHeight > 11 || device % 10 === 0)
      svg.append(shape("text", { class: "tick", x: left - 8, y: y + cellHeight / 2 + 4, "text-anchor": "end" }, String(device)));
    row.forEach((count, label) => {
      const x = left + label * cellWidth;
      const shade = Math.round(8 + 80 * (count / top));
      svg.append(shape("rect", { class: "cell", x, y, width: cellWidth - 1.5, height: cellHeight - 1.5, rx: 2,
        style: { fill: `color-mix(in oklab, var(--accent) ${shade}%, var(--card))` } },
      shape("title", {}, `device ${device}, ${noun} ${label}: ${count} samples`)));
      if (cellWidth >= 24 && cellHeight >= 16)
        svg.append(shape("text", { x: x + cellWidth / 2 - 0.7, y: y + cellHeight / 2 + 3.5, "text-anchor": "middle",
          style: { fill: shade > 50 ? "var(--accent-ink)" : "var(--ink)", fontSize: "11px", pointerEvents: "none" } }, String(count)));
    });
  });
  box.replaceChildren(svg);
}
