// How the total time of a run is spent, and what each transfer carries.

const PART_WORDS = { uplink: "uplink", downlink: "downlink", device: "device computing", server: "server computing" };

function drawTime() {
  choose("share", [["seconds", "seconds"], ["share", "share of total"]], chosen.share, (value) => { remember({ share: value }); drawTime(); });
  const parts = Object.keys(data.parts);
  $("time-key").replaceChildren(...parts.map((part) => element("span", {}, partMark(part), PART_WORDS[part])));
  const list = seriesHere();
  const rows = list.map((series) => {
    const sum = parts.reduce((all, part) => all + series.seconds[part], 0);
    const scale = chosen.share === "share" ? 1 / (sum || 1) : 1;
    return { label: series.title, series, words: seconds(sum), parts: parts.map((part) => ({ name: part, value: scale * series.seconds[part],
      colour: both(data.parts[part]), title: `${PART_WORDS[part]}: ${seconds(series.seconds[part])} (${percent(series.seconds[part] / (sum || 1))})` })) };
  });
  barChart($("time-chart"), rows, { label: "Time of a run", most: chosen.share === "share" ? 1 : undefined });
  exportable("time-chart", "Time breakdown", () => [["protocol", ...parts], ...list.map((one) => [one.label, ...parts.map((part) => one.seconds[part])])]);
}

function partMark(part) {
  return shape("svg", { width: 12, height: 12, "aria-hidden": "true" }, shape("rect", { width: 12, height: 12, rx: 3, style: { fill: both(data.parts[part]) } }));
}

function drawPayload() {
  const list = seriesHere().filter(({ payload: p }) => p.first_bits || p.down_bits);
  $("payload").hidden = !list.length;
  const rows = list.flatMap((series) => transfersOf(series.payload).map(([words, value], n) => ({ label: words, under: true,
    heading: n ? null : series, words: bits(value), parts: [{ value, colour: ink(series), title: `${series.title}, ${words}: ${bits(value)}` }] })));
  barChart($("payload-chart"), rows, { label: "Bits of a transfer" });
  exportable("payload-chart", "Payload size", () => [["protocol", "transfer", "bits"],
    ...list.flatMap((series) => transfersOf(series.payload).map(([words, value]) => [series.label, words, value]))]);
}

function transfersOf(p) {
  const differs = p.later_bits !== null && Math.round(p.later_bits) !== Math.round(p.first_bits);
  const what = p.up === "nothing" ? "samples" : `${p.up}${p.seeds ? " + samples" : ""}`;
  return [
    ...(p.first_bits ? [[differs ? `first upload: ${what}` : `upload: ${what}`, p.first_bits]] : []),
    ...(differs ? [[`later uploads: ${p.up}`, p.later_bits]] : []),
    ...(p.down_bits ? [[`download: ${p.down}`, p.down_bits]] : []),
  ];
}
