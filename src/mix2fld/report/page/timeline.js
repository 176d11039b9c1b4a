// A round in time: each device computes and uploads, the server works, its audience downloads. Who waits for whom is the
// policy's: devices transmit together when the slowest has computed, or each at its own times (spans).

const WAY_COLOURS = { computing: "device", up: "uplink", down: "downlink" };

function drawTimeline() {
  const list = seriesHere();
  const series = shownSeries(list);
  select("shown", list.map((one) => [one.protocol, one.title]), series.protocol, (value) => { remember({ shown: value, tround: "", step: "" }); drawTimeline(); drawDiagram(); });
  const runs = runsOf(series);
  const run = runs.find((one) => String(one.seed) === chosen.seed) ?? runs[0];
  const rounds = run.timing;
  const place = Math.max(0, chosen.tround === "" ? 0 : rounds.findIndex((one) => one.round >= Number(chosen.tround)));
  const slider = $("timeline-round");
  Object.assign(slider, { min: 0, max: rounds.length - 1, value: place });
  slider.setAttribute("aria-valuetext", `round ${rounds[place].round}`);
  $("timeline-shown").textContent = `${rounds[place].round} of ${run.planned}`;
  const go = (to) => { remember({ tround: String(rounds[to].round) }); drawTimeline.now = to; paintTimeline(series, run, to, null); };
  slider.oninput = () => { drawTimeline.player.pause(); go(Number(slider.value)); };
  drawTimeline.now = place;
  drawTimeline.player?.pause();
  drawTimeline.player = player({ box: $("timeline-play"), steps: rounds.length, seconds: 2.5,
    frame: (part) => paintTimeline(series, run, drawTimeline.now, part),
    step: (by) => { const to = drawTimeline.now + by; if (!rounds[to]) { paintTimeline(series, run, drawTimeline.now, null); return false; } go(to); return true; } });
  $("timeline-key").replaceChildren(...Object.entries(data.charts.time.parts).map(([part, { name }]) => element("span", {}, partMark(part), name)),
    element("span", {}, deliveryMark("l"), "lost"));
  paintTimeline(series, run, place, null);
  const rows = () => [["round", "device", "computing s", "uplink s", "uplink", "downlink s", "downlink", "server s"], ...rounds.flatMap((one) =>
    run.devices.slice(0, one.arrived[0].length).map((device, n) => [one.round, device, one.computing?.[n], one.up?.[n], data.charts.deliveries[one.arrived[0][n]].name,
      one.down?.[n], data.charts.deliveries[one.arrived[1][n]].name, one.parts.server]))];
  exportable("timeline-chart", "Round timeline", rows);
}

// The protocol whose round is shown: as chosen, else the one with samples, else one that sends.
function shownSeries(list) {
  return list.find((one) => one.protocol === chosen.shown) ?? list.find((one) => galleryOf(one)) ??
    list.find((one) => one.summary.delivered) ?? list[0];
}

function paintTimeline(series, run, place, part) {
  const round = run.timing[place];
  $("timeline-round").value = place;
  $("timeline-shown").textContent = `${round.round} of ${run.planned}`;
  const { device, uplink, server, downlink } = round.parts;
  const length = Math.max(device + uplink + server + downlink, 1e-9);
  const served = round.until ?? device + uplink;
  const known = Array.isArray(round.computing);
  $("timeline-note").textContent = `${series.title}, seed ${run.seed}, round ${round.round}: ${seconds(length)}. ` +
    (round.policy ? `wait = ${round.policy}: a device is idle for ${seconds(round.idle)}` + (round.stale[1] ? `; ${round.stale[0]} of the uploads used are from earlier rounds, the oldest ${round.stale[1]} steps old. ` : ". ") : "") +
    (known ? "" : "This record was made by an older version without the times of single devices; the slowest is shown.");
  const box = $("timeline-chart");
  const width = widthOf(box);
  const left = width < 480 ? 62 : 88;
  const names = known ? run.devices.slice(0, round.computing.length).map((n) => `device ${n}`) : ["slowest"];
  const tall = names.length > 14 ? 12 : 18;
  const bottom = 8 + (names.length + 1) * tall;
  const x = (time) => left + (time / length) * (width - left - 30);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${bottom + 46}`, height: bottom + 46, role: "img", "aria-label":
    `Round ${round.round} of ${series.title}: devices compute ${seconds(device)}, uplink ${seconds(uplink)}, server ${seconds(server)}, downlink ${seconds(downlink)}` });
  for (const at of ticks(0, length, Math.floor(width / 130))) {
    svg.append(shape("line", { class: "gridline", x1: x(at), x2: x(at), y1: 4, y2: bottom }),
      shape("text", { class: "tick", x: x(at), y: bottom + 16, "text-anchor": "middle" }, seconds(at)));
  }
  svg.append(shape("text", { class: "axis", x: (left + width) / 2, y: bottom + 38, "text-anchor": "middle" }, "simulated time since the round began"));
  const upto = part === null ? length : part * length;
  const bar = (row, from, time, colour, title, lost) => {
    const end = Math.min(from + time, upto);
    if (!(time > 0) || end <= from) return;
    svg.append(shape("rect", { class: "span", x: x(from), y: 6 + row * tall, width: Math.max(0.8, x(end) - x(from)), height: tall - 3, rx: 1.5,
      "fill-opacity": lost ? 0.35 : 1, style: { fill: colour } }, shape("title", {}, title)));
    if (lost && end >= 0.999 * (from + time)) svg.append(shape("path", { class: "lost", d: DELIVERIES.l.draw(x(end) - tall + 3, 6 + row * tall, tall - 4, tall - 4),
      "stroke-width": 1.8, style: { stroke: "var(--lost)", fill: "none" } }));
  };
  names.forEach((name, n) => {
    svg.append(shape("text", { class: "tick", x: left - 7, y: 6 + n * tall + tall * 0.66, "text-anchor": "end" }, name));
    const of = (way, whole) => (known ? round[way][n] : whole);
    const lost = (way) => known && round.arrived[way][n] === "l";
    if (round.spans) {
      const [computed = 0, from = null, to = null] = round.spans[n];
      bar(n, 0, computed, both(data.charts.time.parts.device), `${name} computes ${seconds(computed)}`);
      if (from !== null) bar(n, from, to - from, both(data.charts.time.parts.uplink), `${name} transmits ${seconds(to - from)}${lost(0) ? ", lost" : ""}`, lost(0));
    } else {
      bar(n, 0, of("computing", device), both(data.charts.time.parts.device), `${name} computes ${seconds(of("computing", device) ?? 0)}`);
      bar(n, device, of("up", uplink), both(data.charts.time.parts.uplink), `${name} uploads: ${seconds(of("up", uplink) ?? 0)}${lost(0) ? ", lost" : ""}`, lost(0));
    }
    bar(n, served + server, of("down", downlink), both(data.charts.time.parts.downlink), `${name} downloads: ${seconds(of("down", downlink) ?? 0)}${lost(1) ? ", lost" : ""}`, lost(1));
  });
  svg.append(shape("text", { class: "tick", x: left - 7, y: 6 + names.length * tall + tall * 0.66, "text-anchor": "end" }, "server"));
  bar(names.length, served, server, both(data.charts.time.parts.server), `server computes ${seconds(server)}`);
  svg.append(shape("path", { class: "frame", d: `M${left} 4V${bottom}H${width - 30}` }));
  if (part !== null) svg.append(shape("line", { class: "cursor", x1: x(upto), x2: x(upto), y1: 2, y2: bottom, "stroke-width": 1.5, style: { stroke: "var(--ink)" } }));
  box.replaceChildren(svg);
}
