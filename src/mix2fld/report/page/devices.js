// One seed, device by device: deliveries, scores, labels.

function drawDetail() {
  const seeds = setting().seeds.map(String);
  const seed = seeds.includes(chosen.seed) ? chosen.seed : seeds[0];
  choose("seed", seeds.map((one) => [one, one]), seed, (value) => { remember({ seed: value }); drawDetail(); drawTimeline(); });
  const shown = seriesHere().flatMap((series) => runsOf(series).filter((run) => String(run.seed) === seed).map((run) => ({ series, run })));
  drawDeliveries(shown);
  drawDevices(shown);
  drawLabels(seed);
}

function drawDeliveries(shown) {
  choose("direction", [["up", "uplink"], ["down", "downlink"]], chosen.direction, (value) => { remember({ direction: value }); drawDeliveries(shown); });
  $("delivery-key").replaceChildren(...Object.keys(DELIVERIES).map((kind) => element("span", { "data-kind": kind }, deliveryMark(kind), data.charts.deliveries[kind].name)));
  $("delivery-chart").replaceChildren(...shown.map(({ series, run }) => deliveryGrid(series, run, chosen.direction)));
  exportable("delivery-chart", "Deliveries", () => [["protocol", "seed", "direction", "round", "device", "delivery"], ...shown.flatMap(({ series, run }) =>
    run[chosen.direction].flatMap((row, n) => [...row].map((kind, place) => [series.label, run.seed, chosen.direction, run.rounds[n], run.devices[place], data.charts.deliveries[kind].name])))]);
}

function drawDevices(shown) {
  const last = Math.max(1, ...shown.flatMap(({ run }) => run.rounds));
  const slider = $("round");
  slider.max = last;
  const now = chosen.round === "" ? last : Math.min(Number(chosen.round), last);
  slider.value = now;
  slider.oninput = () => { remember({ round: Number(slider.value) === last ? "" : slider.value }); drawDevices(shown); };
  $("round-shown").textContent = `${now} of ${last}`;
  const rows = shown.map(({ series, run }) => {
    const upto = run.rounds.filter((round) => round <= now).length;
    const known = run.scores[Math.max(0, upto - 1)].map((value, place) => ({ value, device: run.devices[place] }));
    return { series, dots: known.filter(({ value }) => value !== null) };
  }).filter(({ dots }) => dots.length);
  stripChart($("device-chart"), rows);
  exportable("device-chart", named("Accuracy of each device"), () => [["protocol", "round", "device", metric().name],
    ...rows.flatMap(({ series, dots }) => dots.map(({ value, device }) => [series.label, now, device, value]))]);
}

function drawLabels(seed) {
  const { labels, bins, unavailable } = setting();
  const counts = labels[seed];
  const noun = bins.length ? "bin" : "label";
  $("label-heading").textContent = bins.length ? "Target distribution" : "Label distribution";
  $("label-words").textContent = `Training samples by device (rows) and ${noun} (columns).` +
    (bins.length ? ` Bins of the target: ${bins.map((name, n) => `${n} ${name}`).join(", ")}.` : "");
  if (counts) heatMap($("label-chart"), counts, noun);
  else $("label-chart").replaceChildren(element("p", { class: "empty" }, unavailable ? `Not available: ${unavailable}.` : "Available for the first ten seeds only."));
  exportable("label-chart", "Label distribution", () => [["device", ...counts[0].map((_, label) => bins[label] ?? `label ${label}`)], ...counts.map((row, device) => [device, ...row])]);
}
