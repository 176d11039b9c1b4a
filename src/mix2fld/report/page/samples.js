// The samples at the server: raw, mixed-up and inverse-Mixup ones, with their privacy.

function drawGallery() {
  const { gallery, unavailable } = setting();
  const say = (words) => $("sees-body").replaceChildren(element("p", { class: "muted" }, words));
  if (unavailable) return say(`Not available: ${unavailable}.`);
  if (!gallery) return say("None: these protocols upload weights or outputs only.");
  if (!gallery.cards.length) return say(noSamples(gallery));
  const ratios = gallery.ratios.map(short).join(" : ");
  const words = {
    raw: "Devices upload raw samples: the server sees them as they are.",
    mixed: `Devices upload mixes of ${gallery.ratios.length} samples with different labels, in the ratio ${ratios}. The server sees only the outlined samples.`,
    inverse: `Devices upload mixes of ${gallery.ratios.length} samples with different labels, in the ratio ${ratios}. The server applies inverse-Mixup to mixes of different devices, which yields samples with one label each. It sees only the outlined samples.`,
  }[gallery.kind];
  const raw = gallery.kind === "raw";
  $("sees-body").replaceChildren(
    element("p", { class: "muted" }, `${words} Shown: ${gallery.protocol}, seed ${gallery.seed}; ${gallery.devices} devices have delivered their samples.`),
    raw ? "" : element("p", { class: "muted" }, `Sample privacy is the natural logarithm of the smallest L2 distance (${gallery.units}) between a sample and the raw samples it was made from: higher is more private.`),
    Object.keys(gallery.privacy).length ? privacyTable(gallery.privacy) : "",
    element("div", { class: "cards" }, ...gallery.cards.map((card) => sampleCard(card, gallery))));
  return undefined;
}

// "Yet" is for runs that can still change it.
function noSamples(gallery) {
  const open = Object.values(data.runs).some((run) => run.protocol === gallery.protocol && run.state === "running");
  if (gallery.kind === "waiting") return `The samples delivered${open ? " so far" : ""} contain no pair that inverse-Mixup can use.`;
  return open ? "No samples have been delivered yet." : `None: no upload with samples was delivered (${gallery.protocol}, seed ${gallery.seed}).`;
}

function privacyTable(privacy) {
  const columns = [["min", "minimum"], ["q05", "5th percentile"], ["median", "median"], ["mean", "mean"], ["q95", "95th percentile"]];
  const names = { mixed: "mixed-up", inverse: "inverse-Mixup" };
  const table = element("table", { class: "facts" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "sample privacy"), ...columns.map(([, words]) => element("th", { scope: "col" }, words)))),
    element("tbody", {}, ...Object.entries(privacy).map(([kind, values]) => element("tr", {}, element("th", { scope: "row" }, names[kind]),
      ...columns.map(([key]) => element("td", {}, values[key] === null ? "−∞" : values[key].toFixed(2)))))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Sample privacy" }, table);
}

function sampleCard(card, gallery) {
  const parts = [];
  const named = (labels) => `label ${labels.map((label) => gallery.label_names[label] ?? label).join(" + ")}`;
  for (const mix of card.mixes) {
    parts.push(element("h3", {}, mix.raw.length ? `device ${mix.device} mixes` : `device ${mix.device} uploads`));
    const row = mix.raw.flatMap((tile, place) => [
      place ? element("span", { class: "sign", "aria-hidden": "true" }, "+") : null,
      picture(tile, false, `${short(gallery.ratios[place])} × ${named(tile.labels)}`)]);
    if (mix.raw.length) row.push(element("span", { class: "sign", "aria-hidden": "true" }, "="));
    row.push(picture(mix.mixed, true, named(mix.mixed.labels)));
    parts.push(element("div", { class: "tiles-row" }, ...row.filter(Boolean)));
  }
  if (card.made.length)
    parts.push(element("h3", {}, "the server generates"), element("div", { class: "tiles-row" },
      ...card.made.map((tile) => picture(tile, true, named(tile.labels)))));
  return element("div", { class: "sample-card" }, ...parts);
}

function picture(tile, seen, words) {
  const privacy = tile.privacy === undefined ? null : tile.privacy === null ? "privacy −∞" : `privacy ${tile.privacy.toFixed(2)}`;
  const spoken = `${seen ? "seen by the server" : "stays on the device"}: ${words}`;
  return element("figure", { class: seen ? "sample seen" : "sample" },
    tile.lines ? signal(tile.lines, spoken) : element("img", { src: tile.image, alt: spoken, width: 84, height: 84 }),
    element("figcaption", {}, element("div", {}, words), privacy ? element("div", { class: "muted" }, privacy) : null));
}

// A sample that is no image: a line for each channel, heights from 0 to 1000.
function signal(lines, words) {
  const last = Math.max(1, lines[0].length - 1);
  const drawn = lines.map((heights, channel) => shape("polyline", {
    points: heights.map((height, at) => `${(1000 * at / last).toFixed(0)},${1000 - height}`).join(" "),
    class: `channel-${channel % 8}`,
  }));
  return shape("svg", { class: "signal", viewBox: "0 0 1000 1000", preserveAspectRatio: "none", width: 84, height: 84, role: "img", "aria-label": words }, ...drawn);
}
