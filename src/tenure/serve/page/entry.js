// One election: a row that is built once and then patched, and what opens below it.

import { Detail } from "./detail.js";
import { draw, make, mark, say, show } from "./dom.js";
import { sparkline, strip } from "./draw.js";
import { SHAPES, STATES, both, lasting, named, short } from "./words.js";

let serial = 0;

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
    this.shape = draw("path");
    this.word = make("span");
    this.lasts = make("span", { class: "lasts" });
    this.title = make("bdi", { class: "name" });
    this.button = make("button", { type: "button", class: "opens", tabindex: "-1", "aria-expanded": "false", onclick: () => this.toggle() }, this.title);
    this.why = make("span", { class: "why" });
    this.leader = make("bdi");
    this.here = make("span", { class: "here" });
    this.token = make("span");
    this.office = make("span");
    this.margin = make("span", { class: "margin-number" });
    this.spark = make("span", { class: "spark-place" });
    this.standbys = make("span");
    this.strip = make("span", { class: "strip-place" });
    const state = make("span", { role: "cell", class: "state" }, draw("svg", { class: "shape", viewBox: "0 0 24 24", "aria-hidden": "true" }, this.shape), make("span", { class: "state-words" }, this.word, this.lasts));
    this.line = make(
      "div",
      { role: "row", class: "row" },
      state,
      make("span", { role: "cell", class: "election" }, this.button, this.why),
      make("span", { role: "cell", class: "leader", "data-label": "Leader" }, this.leader, this.here),
      make("span", { role: "cell", class: "token number", "data-label": "Token" }, this.token),
      make("span", { role: "cell", class: "office number", "data-label": "In office" }, this.office),
      make("span", { role: "cell", class: "margin", "data-label": "Margin" }, this.spark, this.margin),
      make("span", { role: "cell", class: "standbys number", "data-label": "Standbys" }, this.standbys),
      make("span", { role: "cell", class: "when", "data-label": "Timeline" }, this.strip),
    );
    this.line.addEventListener("click", (event) => {
      // The whole row opens, unless somebody is copying a name out of it.
      if (event.target.closest("button, a") === null && String(getSelection()) === "") this.toggle();
    });
    this.element = make("div", { role: "rowgroup", class: "entry", id: this.id }, this.line);
    this.element.entry = this;
    this.patch(this.row);
  }

  patch(row) {
    this.row = row;
    const state = STATES[row.state];
    mark(this.element, "data-state", row.state);
    mark(this.shape, "d", SHAPES[row.state]);
    say(this.word, state.word);
    say(this.title, row.election);
    mark(this.button, "title", row.election);
    say(this.why, row.why);
    show(this.why, row.why !== "" && row.state !== "ok");
    say(this.leader, row.leader === null ? "nobody" : named(row.leader.holder));
    mark(this.leader, "title", row.leader === null ? null : row.leader.holder);
    mark(this.leader, "class", row.leader === null ? "nobody" : null);
    say(this.here, row.here === "leading" ? "here" : "stands here");
    mark(this.here, "title", row.here === "leading" ? "leads through this server" : "stands through this server");
    show(this.here, row.here !== "none");
    say(this.token, row.leader === null ? "–" : String(row.leader.token));
    say(this.standbys, row.resign_asked ? `${row.standbys.length}, asked to leave` : String(row.standbys.length));
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
