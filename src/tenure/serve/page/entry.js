// One election: a row that is built once and then patched, and what opens below it.

import { Detail } from "./detail.js";
import { broken, draw, make, mark, say, sayBroken, show } from "./dom.js";
import { sparkline, strip } from "./draw.js";
import { SHAPES, STATES, both, lasting, named, short } from "./words.js";

let serial = 0;
let pattern = null;

// A row without anything in it, made once: a copy costs a third of what it takes to make one.
function copied() {
  const cell = (name, label, ...children) => make("span", { role: "cell", class: name, "data-label": label }, ...children);
  const shape = draw("svg", { class: "shape", viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path"));
  pattern ??= make(
    "div",
    { role: "rowgroup", class: "entry" },
    make(
      "div",
      { role: "row", class: "row" },
      cell("state", null, shape, make("span", { class: "state-words" }, make("span"), make("span", { class: "lasts" }))),
      cell("election", null, make("button", { type: "button", class: "opens", tabindex: "-1", "aria-expanded": "false" }, make("bdi", { class: "name" })), make("span", { class: "why" })),
      cell("leader", "Leader", make("bdi"), make("span", { class: "here" })),
      cell("token number", "Token", make("span")),
      cell("office number", "In office", make("span")),
      cell("margin", "Margin", make("span", { class: "spark-place" }), make("span", { class: "margin-number" })),
      cell("standbys number", "Standbys", make("span")),
      cell("when", "Timeline", make("span", { class: "strip-place" })),
    ),
  );
  return pattern.cloneNode(true);
}

// Names that are very long have much in common at their beginnings, so it is their ends that always show: of the rest what fits into two
// lines, and all of it when the row is open.
const LONG = 44;
const END_MAX = 28;

function titled(name) {
  const letters = [...name]; // not halves of them
  if (letters.length <= LONG) return broken(name);
  const last = letters.findLastIndex((letter, at) => "/.:".includes(letter) && at > letters.length - END_MAX && at < letters.length - 1);
  const cut = last === -1 ? letters.length - END_MAX : last;
  const part = (kind, from, to) => make("span", { class: kind }, ...broken(letters.slice(from, to).join("")));
  return [part("name-begins", 0, cut), part("name-ends", cut)];
}

export class Entry {
  constructor(row, context) {
    this.context = context;
    this.name = row.election;
    this.row = row;
    this.id = `e${(serial += 1)}`;
    this.visible = false;
    this.detail = null;
    this.drawn = {}; // what the pictures were drawn from
    this.#build();
  }

  get rank() {
    return STATES[this.row.state].rank;
  }

  get is_open() {
    return this.detail !== null;
  }

  #build() {
    this.element = copied();
    this.element.id = this.id;
    this.element.entry = this;
    const [line] = this.element.children;
    const [state, election, leader, token, office, margin, standbys, when] = line.children;
    this.line = line;
    this.shape = state.firstChild.firstChild;
    [this.word, this.lasts] = state.lastChild.children;
    [this.button, this.why] = election.children;
    this.title = this.button.firstChild;
    [this.leader, this.here] = leader.children;
    this.token = token.firstChild;
    this.office = office.firstChild;
    [this.spark, this.margin] = margin.children;
    this.standbys = standbys.firstChild;
    this.strip = when.firstChild;
    this.title.append(...titled(this.name));
    mark(this.button, "title", this.name);
    this.patch(this.row);
  }

  patch(row) {
    this.row = row;
    const state = STATES[row.state];
    mark(this.element, "data-state", row.state);
    mark(this.shape, "d", SHAPES[row.state]);
    say(this.word, state.word);
    say(this.why, row.why);
    show(this.why, row.why !== "" && row.state !== "ok");
    sayBroken(this.leader, row.leader === null ? "nobody" : named(row.leader.holder));
    mark(this.leader, "title", row.leader === null ? null : row.leader.holder);
    mark(this.leader, "class", row.leader === null ? "nobody" : null);
    say(this.here, row.resign_asked ? "asked to leave" : row.here === "leading" ? "here" : "stands here");
    mark(this.here, "title", row.here === "leading" ? "leads through this server" : row.here === "standing" ? "stands through this server" : null);
    show(this.here, row.resign_asked || row.here !== "none");
    say(this.token, row.leader === null ? "–" : String(row.leader.token));
    say(this.standbys, String(row.standbys.length));
    mark(this.standbys, "title", row.standbys.length ? row.standbys.join("\n") : null);
    say(this.margin, row.margin_s === null ? "–" : short(row.margin_s));
    this.text = [row.election, row.leader?.holder ?? "", ...row.standbys].join("\n").toLowerCase();
    this.tick();
    if (this.visible) this.paint();
    this.detail?.patch(row);
  }

  // What moves by itself: only rows that are on the screen are asked.
  tick() {
    const { row, context } = this;
    const now = context.now();
    say(this.office, row.since === null ? "–" : lasting((now - Date.parse(row.since)) / 1000));
    mark(this.office, "title", row.since === null ? null : `since ${both(Date.parse(row.since))}`);
    const wrong = row.state !== "ok" && row.state_since !== null;
    say(this.lasts, wrong ? `for ${lasting((now - Date.parse(row.state_since)) / 1000)}` : "");
    mark(this.lasts, "title", wrong ? `since ${both(Date.parse(row.state_since))}` : null);
    this.detail?.tick();
  }

  paint() {
    const { row, context, drawn } = this;
    if (drawn.margins !== row.margins) {
      drawn.margins = row.margins;
      this.spark.replaceChildren(...(row.margins.length ? [sparkline(row.margins)] : []));
    }
    const now = context.now();
    const step_ms = (context.span_s * 1000) / context.strip_width; // one pixel
    const same = drawn.timeline === row.timeline && drawn.marks === row.marks && drawn.span_s === context.span_s && drawn.width === context.strip_width;
    if (same && now - drawn.at < step_ms) return;
    Object.assign(drawn, { timeline: row.timeline, marks: row.marks, span_s: context.span_s, width: context.strip_width, at: now });
    this.strip.replaceChildren(strip(row, now, context.span_s, context.strip_width));
  }

  toggle(open = !this.is_open) {
    if (open === this.is_open) return;
    if (open) {
      this.detail = new Detail(this);
      this.element.append(this.detail.element);
      this.detail.tick(); // Only now it is as wide as it will be.
    } else {
      this.detail.element.remove();
      this.detail = null;
    }
    mark(this.button, "aria-expanded", String(open));
    mark(this.button, "aria-controls", open ? `${this.id}-detail` : null);
    this.element.classList.toggle("is-open", open);
    this.context.onopen(this);
  }
}
