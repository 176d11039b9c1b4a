"use strict";
// Helpers. Text from files only ever becomes text nodes and attribute values, never markup.

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const inPercent = (share) => (100 * share).toFixed(1);
const percent = (share) => `${inPercent(share)} %`;
const short = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 });

function seconds(value) {
  if (value >= 1 || value === 0) return `${short(value)} s`;
  return value >= 1e-3 ? `${short(1e3 * value)} ms` : `${short(1e6 * value)} µs`;
}

function bits(value) {
  for (const [unit, size] of [["Gbit", 1e9], ["Mbit", 1e6], ["kbit", 1e3]])
    if (value >= size) return `${short(value / size)} ${unit}`;
  return `${short(value)} bit`;
}

function joules(value) {
  for (const [unit, size] of [["MJ", 1e6], ["kJ", 1e3], ["J", 1], ["mJ", 1e-3]])
    if (value >= size) return `${short(value / size)} ${unit}`;
  return `${short(1e6 * value)} µJ`;
}

const ink = (series) => `light-dark(${series.colour.light}, ${series.colour.dark})`;
const both = (colour) => `light-dark(${colour.light}, ${colour.dark})`;

function swatch(series) {
  const line = shape("line", {
    x1: 1, y1: 6, x2: 27, y2: 6, "stroke-width": 3, "stroke-dasharray": series.dash || null,
    style: { stroke: ink(series) },
  });
  return shape("svg", { class: "swatch", width: 28, height: 12, "aria-hidden": "true" }, line);
}

// A row of radio buttons; rebuilt only when its options change, so that focus stays.
function choose(id, options, chosen, act) {
  const box = $(id);
  box.hidden = options.length < 2;
  const signature = JSON.stringify(options);
  if (box.dataset.options !== signature) {
    box.dataset.options = signature;
    for (const old of box.querySelectorAll("label")) old.remove();
    for (const [value, words] of options) {
      const input = element("input", { type: "radio", name: id, value });
      box.append(element("label", {}, input, element("span", {}, words)));
    }
  }
  for (const input of box.querySelectorAll("input")) {
    input.checked = input.value === String(chosen);
    input.onchange = () => act(input.value);
  }
}

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

function logTicks(low, high, count) {
  const found = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++)
    for (const m of [1, 2, 5]) found.push(m * 10 ** decade);
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length > count ? inside.filter((v) => /^1/.test(v.toExponential())) : inside;
}

// The value of a polyline at x; null outside its range.
function valueAt(xs, ys, x) {
  if (!xs.length || x < xs[0] - 1e-9 || x > xs[xs.length - 1] * (1 + 1e-9) + 1e-9) return null;
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  const width = xs[high] - xs[low];
  const part = width > 0 ? Math.min(1, Math.max(0, (x - xs[low]) / width)) : 1;
  return ys[low] + part * (ys[high] - ys[low]);
}

const scrollSafe = (width) => Math.max(260, Math.floor(width));
