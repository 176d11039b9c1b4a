// The page: its panels in their order, drawn from the data. Live pages poll the data.

// Another panel is an entry here: the id of its section, its name in the contents, and how it is drawn.
// A panel that has nothing to show hides its section.
const PANELS = [
  ["pareto", "Accuracy and traffic", drawPareto], ["curves", "Learning curves", drawCurves], ["summary", "Results", drawSummary],
  ["target", "Target", drawTarget], ["grid", "Settings", drawGrid], ["timeline", "Round", drawRound],
  ["whatif", "What if", drawWhatIf], ["time", "Time", drawTime], ["payload", "Payload", drawPayload],
  ["detail", "Devices", drawDetail], ["fleet", "Fleet", drawFleet], ["sees", "Samples", drawGallery], ["again", "Reproduce", drawAgain],
];

function draw() {
  drawTop();
  const any = data.settings.length > 0;
  $("key").hidden = !any;
  for (const [id] of PANELS) $(id).hidden = !any;
  for (const one of document.querySelectorAll("[data-metric]")) one.textContent = named(one.dataset.metric);
  if (any) {
    drawChoices();
    drawTiles();
    for (const [, , panel] of PANELS) panel();
  }
  drawContents();
  drawFooter();
}

function drawRound() {
  drawTimeline();
  drawDiagram();
}

// Sections that come ready with the page, such as that of privacy, need no drawing.
const READY = [["privacy", "Privacy"]];

function drawContents() {
  const shown = [...PANELS.slice(0, -1), ...READY, PANELS.at(-1)].filter(([id]) => $(id) && !$(id).hidden);
  $("contents").replaceChildren(...shown.map(([id, words]) => element("a", { href: `#${id}` }, named(words))));
  $("contents").hidden = !shown.length;
}

function drawAgain() {
  const parts = data.settings.flatMap((one) => [
    several() ? element("h3", {}, one.label) : null,
    element("pre", { class: "wrap command", tabindex: 0 }, one.command), copyButton(one.command),
    element("details", {}, element("summary", {}, "All settings"), element("pre", { tabindex: 0 }, one.config)),
  ]);
  const signature = JSON.stringify(data.settings.map((one) => [one.command, one.config]));
  if ($("again-body").dataset.shown === signature) return;
  $("again-body").dataset.shown = signature;
  $("again-body").replaceChildren(...parts.filter(Boolean));
}

function copyButton(words) {
  const made = button("Copy command", async () => {
    try {
      await navigator.clipboard.writeText(words);
      made.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(made.previousElementSibling);
      made.textContent = "Selected: press Ctrl+C to copy";
    }
  });
  return made;
}

function setTheme(theme) {
  remember({ theme });
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  choose("theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]], theme, setTheme);
}

const live = document.body.dataset.live === "true";

async function refresh() {
  try {
    const answer = await fetch("data.json", { cache: "no-cache" });
    const text = answer.ok ? await answer.text() : null;
    if (text && text !== refresh.last) {
      refresh.last = text;
      data = JSON.parse(text);
      draw();
    }
    connection(false);
  } catch {
    connection(true);
  }
  setTimeout(refresh, 1500);
}

function start() {
  readAddress();
  setTheme(chosen.theme);
  document.addEventListener("click", followInside);
  $("include").addEventListener("change", () => { remember({ include: $("include").checked ? "yes" : "" }); draw(); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (data && innerWidth !== width) { width = innerWidth; draw(); }
  });
  addEventListener("hashchange", () => { readAddress(); setTheme(chosen.theme); if (data) draw(); });
  if (live) {
    $("title").textContent = "Loading runs…";
    refresh();
  } else {
    data = JSON.parse($("data").textContent);
    draw();
  }
}

start();
