// The page: what the server tells goes into the model, and once per frame what changed goes from there onto the screen.

import { ask } from "./acting.js";
import { feed, patchAside, refill } from "./aside.js";
import { byId, mark, say, show } from "./dom.js";
import { List } from "./list.js";
import { Live } from "./live.js";
import { Model } from "./model.js";
import { SHAPES, STATES, lasting } from "./words.js";

const SAID_EVERY_MS = 5000; // A screen reader that is told of every change cannot be used for anything else.
const ROWS_FIRST = 40;
const ROWS_PER_FRAME = 120;
const LEVELS = { bad: "bad", warn: "warn", ok: "fine", wait: "wait" };
const COLOURS = { bad: "b3121d", warn: "b36b00", ok: "2a7d52", wait: "777777" };

const model = new Model();
const context = {
  now: () => model.now(),
  head: () => model.head ?? { read_only: true },
  row: (name) => model.rows.get(name),
  span_s: 900,
  strip_width: 0,
  onask: (name, kind, opener) => ask(model.rows.get(name), kind, opener, context),
  onstate: (state) => toggleState(state),
  onopened: () => remember(),
};
const list = new List(context);
const find = byId("find");
const states = new Set();
let scheduled = false;
let link = { ok: false };
let ended = null;
let refilling = false; // The feed has a gap, which the timelines can fill.

// Drawing

function schedule() {
  if (scheduled) return;
  scheduled = true;
  // A hidden page has no frames. Its title is what somebody may still see.
  if (document.hidden) setTimeout(flush, 1000);
  else requestAnimationFrame(flush);
}

function flush() {
  scheduled = false;
  if (model.head === null) return;
  headline(model.head.headline);
  document.body.classList.toggle("is-blind", !model.head.store.ok);
  const first = list.entries.size === 0;
  const { gone } = model;
  model.gone = new Set();
  // What is wrong comes first, and the rest in the frames after: nobody waits for row 500 to read row 1.
  const dirty = [...model.dirty].slice(0, first ? ROWS_FIRST : ROWS_PER_FRAME);
  for (const name of dirty) model.dirty.delete(name);
  list.update(model.rows, dirty, gone);
  if (first) {
    list.measure();
    list.count();
    performance.mark("tenure-first-rows");
  }
  if (model.dirty.size) return schedule();
  if (model.head.instance) say(byId("where"), model.head.read_only ? `${model.head.instance}, read only` : model.head.instance);
  patchAside(model.head, model.now());
  if (refilling) refill(model.rows, model.now());
  refilling = false;
}

function headline({ level, text, also }) {
  mark(byId("status"), "data-level", level);
  mark(byId("status-path"), "d", SHAPES[LEVELS[level]]);
  say(byId("headline"), text);
  const rest = also.join(", ");
  say(byId("also"), rest && `also ${rest}`.replace(/^also (\d+ idle|when last seen|[A-Z])/, "$1"));
  title();
}

function title() {
  const { level = "wait", text = "" } = model.head?.headline ?? {};
  const lost = !link.ok && model.head !== null && ended === null;
  document.title = lost ? "OLD: tenure" : level === "ok" ? "tenure: all is well" : `${text} – tenure`;
  const colour = lost ? COLOURS.wait : COLOURS[level];
  const shape = level === "ok" ? "<circle cx='8' cy='8' r='7'/>" : "<path d='M8 0l8 15H0z'/>";
  mark(byId("icon"), "href", `data:image/svg+xml,${encodeURIComponent(`<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='#${colour}'>${shape}</svg>`)}`);
}

let announced = "";
setInterval(() => {
  const text = lost.hidden ? [byId("headline").textContent, byId("also").textContent].filter(Boolean).join(", ") : announced;
  if (text !== announced && model.head !== null) say(byId("said"), (announced = text));
}, SAID_EVERY_MS);

setInterval(() => {
  if (!document.hidden) list.tick();
  age();
}, 1000);

// The connection

const lost = byId("lost");

function age() {
  const shown = ended !== null || (!link.ok && link.lost_at !== undefined && Date.now() - link.lost_at >= 1000);
  show(lost, shown);
  document.body.classList.toggle("is-old", shown && ended === null);
  mark(byId("link"), "data-link", ended !== null ? "ended" : link.ok ? "live" : "lost");
  say(byId("link-text"), ended !== null ? "ended" : link.ok ? "live" : model.head === null && !shown ? "connecting" : "connection lost");
  show(byId("retry"), ended === null);
  if (!shown) return;
  if (ended !== null) {
    say(byId("lost-what"), ended);
    say(byId("lost-for"), "");
    return;
  }
  const seen = model.head !== null;
  say(byId("lost-what"), seen ? "Connection lost. What you see is old." : "The server has not answered yet.");
  const next_s = Math.max(0, Math.ceil((link.next_at - Date.now()) / 1000));
  say(byId("lost-for"), `for ${lasting((Date.now() - link.lost_at) / 1000)}; trying again ${next_s ? `in ${next_s} s` : "now"}`);
}

const live = new Live({
  onboard(board) {
    model.replace(board);
    refilling ||= !link.ok;
    schedule();
  },
  onchanges(changes) {
    const whole = model.merge(changes);
    if (whole) schedule();
    return whole;
  },
  onfact: (fact) => feed(fact, model.now()),
  onlink(found) {
    link = found;
    age();
    title();
  },
  onend(told) {
    ended = told.text ?? "The server has ended. This is how it stood.";
    age();
  },
});

byId("retry").addEventListener("click", () => live.now());

// Filters, which the address keeps: what one sees, one can send to somebody else.

function filtered() {
  list.filter(find.value, states);
  remember();
  say(byId("said"), list.summary);
}

function toggleState(state) {
  if (!states.delete(state)) states.add(state);
  filtered();
}

function remember() {
  const kept = new URLSearchParams();
  if (find.value) kept.set("q", find.value);
  if (states.size) kept.set("state", [...states].join(" "));
  for (const name of list.open) kept.append("open", name);
  if (context.span_s !== 900) kept.set("span", context.span_s);
  history.replaceState(null, "", `${location.pathname}${kept.size ? `#${kept}` : ""}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  find.value = kept.get("q") ?? "";
  for (const state of (kept.get("state") ?? "").split(" ")) if (state in STATES) states.add(state);
  list.open = new Set(kept.getAll("open"));
  const span = byId("span");
  if ([...span.options].some((option) => option.value === kept.get("span"))) span.value = kept.get("span");
  context.span_s = Number(span.value);
  list.text = find.value.trim().toLowerCase();
  list.states = states;
}

find.addEventListener("input", filtered);
byId("span").addEventListener("change", (event) => {
  context.span_s = Number(event.target.value);
  remember();
  list.tick();
});

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("ask").open) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    find.focus();
    find.select();
  } else if (event.key === "Escape" && (find.value || states.size)) {
    find.value = "";
    states.clear();
    filtered();
  } else if ((event.key === "Enter" || event.key === "ArrowDown") && event.target === find) {
    event.preventDefault();
    list.focusFirst();
  }
});

// The theme

const THEMES = ["system", "light", "dark"];
const theme = byId("theme");

function themed(chosen) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  say(theme, `Theme: ${chosen}`);
}

theme.addEventListener("click", () => {
  const chosen = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % THEMES.length];
  themed(chosen);
  try {
    localStorage.setItem("tenure-theme", chosen);
  } catch {
    // Then it is not remembered.
  }
});

themed(document.documentElement.dataset.theme ?? "system");
new ResizeObserver(() => list.measure()).observe(byId("table"));
recall();
mark(byId("status-path"), "d", SHAPES.wait);
live.run();
