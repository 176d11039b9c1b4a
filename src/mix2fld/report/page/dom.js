"use strict";
// Elements. Text from files only ever becomes text nodes and attribute values, never markup.

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
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const ink = (series) => both(series.colour);
const both = (colour) => `light-dark(${colour.light}, ${colour.dark})`;

function swatch(series) {
  const line = shape("line", {
    x1: 1, y1: 6, x2: 27, y2: 6, "stroke-width": 3, "stroke-dasharray": series.dash || null,
    style: { stroke: ink(series) },
  });
  return shape("svg", { class: "swatch", width: 28, height: 12, "aria-hidden": "true" }, line);
}

// A row of radio buttons; rebuilt only when its options change, so that focus stays.
function choose(id, options, chosenValue, act) {
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
    input.checked = input.value === String(chosenValue);
    input.onchange = () => act(input.value);
  }
}

// A drop-down list, for choices that may be many.
function select(id, options, chosenValue, act) {
  const box = $(id);
  const list = box.querySelector("select");
  box.hidden = options.length < 2;
  const signature = JSON.stringify(options);
  if (box.dataset.options !== signature) {
    box.dataset.options = signature;
    list.replaceChildren(...options.map(([value, words]) => element("option", { value }, words)));
  }
  list.value = String(chosenValue);
  list.onchange = () => act(list.value);
}

function button(words, act, attributes = {}) {
  return element("button", { type: "button", class: "plain", ...attributes, on: { click: act } }, words);
}

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const widthOf = (box) => Math.max(260, Math.floor(box.clientWidth));
