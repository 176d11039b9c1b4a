// What would arrive over another link: sliders, and the closed form behind them.

const KNOBS = [
  // name, words, unit, smallest, largest, step, the run's own value
  ["power", "Uplink power", "dBm", 0, 50, 0.5, (link) => link.uplink_power_dbm],
  ["devices", "Devices", "", 1, 200, 1, (link) => link.devices],
  ["slots", "Time limit T_max", "slots", 5, 1000, 5, (link) => link.max_slots],
  ["samples", "Seed samples N_S", "", 1, 200, 1, (link) => link.seed_samples],
  ["weight", "Bits per weight of FL", "bits", 2, 32, 1, () => 32],
];

function drawWhatIf() {
  const found = setting().what_if;
  $("whatif").hidden = !found;
  if (!found) return;
  const used = (name) => name !== "weight" || found.protocols.some((one) => one.transfers.some((t) => t.weights));
  showKnobs($("whatif-knobs"), KNOBS.filter(([name]) => used(name)).map((knob) => knobOf(knob, found.link)));
  $("whatif-reset").onclick = () => { remember({ power: "", devices: "", slots: "", samples: "", weight: "" }); $("whatif-knobs").replaceChildren(); drawWhatIf(); };
  drawWhatIfChart(found);
}

const knobValue = ([name, , , , , , own], link) => (chosen[name] === "" ? own(link) : Number(chosen[name]));

// Sliders stay while they are dragged: only their words change.
function showKnobs(box, made) {
  if (box.children.length !== made.length || box.dataset.setting !== String(settingNumber())) box.replaceChildren(...made);
  else made.forEach((knob, n) => { box.children[n].querySelector("output").textContent = knob.querySelector("output").textContent; });
  box.dataset.setting = String(settingNumber());
}

function knobOf(knob, link) {
  const [name, words, unit, low, high, step, own] = knob;
  const value = knobValue(knob, link);
  const input = element("input", { type: "range", min: Math.min(low, own(link)), max: Math.max(high, own(link)), step, value, "data-knob": name, "aria-label": words });
  input.addEventListener("input", () => {
    const given = name === "weight" && Number(input.value) > 16 ? "32" : input.value; // a float, or a code of 2 to 16 bits
    remember({ [name]: Number(given) === own(link) ? "" : given });
    drawWhatIf();
  });
  const said = `${short(value)}${unit ? ` ${unit}` : ""}`;
  return element("label", { class: "knob" }, element("span", {}, words), input, element("output", {}, said + (chosen[name] === "" ? "" : ` (run: ${short(own(link))})`)));
}

// The link and the payloads as the sliders have them.
function changedLink(link) {
  const [power, devices, slots] = KNOBS.map((knob) => knobValue(knob, link));
  const transmitting = link.transmitting === link.devices ? devices : Math.min(link.transmitting, devices);
  return { ...link, uplink_power_dbm: power, devices, transmitting, max_slots: slots };
}

function whatIfRows({ link, protocols }) {
  const changed = changedLink(link);
  const [samples, weight] = [knobValue(KNOBS[3], link), knobValue(KNOBS[4], link)];
  return protocols.flatMap(({ protocol, title, transfers }) => transfers.map((transfer) => {
    const size = sizeOf(transfer, samples, weight);
    return { protocol, title, transfer: transfer.transfer, size, budget: linkBudget(changed, transfer.direction, size),
      own: linkBudget(link, transfer.direction, transfer.bits).probability };
  }));
}

function drawWhatIfChart(found) {
  const rows = whatIfRows(found);
  const slot = found.link.slot_seconds;
  const limit = changedLink(found.link).max_slots;
  const seen = new Map(view().series.map((one) => [one.protocol, one]));
  barChart($("whatif-chart"), rows.map((row, n) => {
    const series = seen.get(row.protocol);
    const { needed, probability, fits, roundSlots } = row.budget;
    return { heading: rows[n - 1]?.protocol === row.protocol ? null : series, under: true, label: `${row.transfer}, ${bits(row.size)}`,
      mark: row.own, words: fits ? percent(probability) : "never",
      parts: [{ value: probability, colour: ink(series), title: `${needed} of ${limit} slots; until all are done ${seconds(roundSlots * slot)}` }] };
  }), { most: 1, label: "Probability that a transfer arrives", mark: (value) => `in these runs: ${percent(value)}` });
  $("whatif-table").replaceChildren(element("thead", {}, element("tr", {}, ...["protocol", "transfer", "bits", "slots needed", "delivered", "one device", "slowest of all"]
    .map((words) => element("th", { scope: "col" }, words)))), element("tbody", {}, ...rows.map((row) => element("tr", {},
    element("th", { scope: "row" }, row.title), element("td", {}, row.transfer), element("td", { "data-name": "bits" }, whole(row.size)),
    element("td", { "data-name": "slots" }, `${whole(row.budget.needed)} of ${whole(limit)}`),
    element("td", { "data-name": "delivered" }, row.budget.fits ? percent(row.budget.probability) : "never"),
    element("td", {}, seconds(row.budget.slots * slot)), element("td", {}, seconds(row.budget.roundSlots * slot))))));
  exportable("whatif-chart", "What if", () => [["protocol", "transfer", "bits", "slots needed", "max slots", "delivery probability", "seconds of one device", "seconds of the slowest"],
    ...rows.map((row) => [row.title, row.transfer, row.size, row.budget.needed, limit, row.budget.probability, row.budget.slots * slot, row.budget.roundSlots * slot])]);
}
