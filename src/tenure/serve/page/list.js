// All elections, what is wrong first. A row that changed is patched, one whose state changed is moved, and no other is touched.

import { byId, make, mark, say, show } from "./dom.js";
import { Entry } from "./entry.js";
import { STATES, plural } from "./words.js";

const compare = (one, other) => one.rank - other.rank || (one.name < other.name ? -1 : 1);

export class List {
  constructor(context) {
    this.context = context;
    this.entries = new Map();
    this.order = [];
    this.ranks = new Map(); // as they stand in the document
    this.text = "";
    this.states = new Set();
    this.open = new Set();
    this.table = byId("table");
    this.chips = new Map();
    this.seen = new IntersectionObserver((found) => this.#seen(found), { rootMargin: "200px" });
    context.onopen = (entry) => this.#opened(entry);
    this.#listen();
  }

  // Rows that changed, and rows that are gone.
  update(rows, dirty, gone) {
    const fresh = [];
    const moved = [];
    for (const name of gone) this.#remove(name);
    for (const name of dirty) {
      const row = rows.get(name);
      const entry = this.entries.get(name);
      if (row === undefined) continue;
      if (entry === undefined) fresh.push(this.#add(row));
      else {
        entry.patch(row);
        if (entry.rank !== this.ranks.get(name)) moved.push(entry);
      }
      this.#filter(this.entries.get(name));
    }
    if (fresh.length > 1 && this.order.length === 0) this.#lay(fresh);
    else for (const entry of fresh) this.#place(entry);
    for (const entry of fresh) if (this.open.has(entry.name)) entry.toggle(true);
    if (moved.length) this.#move(moved);
    if (fresh.length || moved.length || gone.size) this.count();
  }

  tick() {
    for (const entry of this.entries.values()) {
      if (!entry.visible) continue;
      entry.tick();
      entry.paint();
    }
  }

  measure() {
    const first = this.order.find((entry) => !entry.element.hidden && entry.strip.clientWidth > 0);
    const wide = first?.strip.clientWidth ?? Math.max(240, this.table.clientWidth - 40);
    if (wide === this.context.strip_width) return;
    this.context.strip_width = wide;
    for (const entry of this.entries.values()) if (entry.visible) entry.paint();
  }

  filter(text, states) {
    this.text = text.trim().toLowerCase();
    this.states = states;
    for (const entry of this.entries.values()) this.#filter(entry);
    this.count();
  }

  // What the chips say, and whether there is anything to see.
  count() {
    const counts = {};
    let shown = 0;
    for (const entry of this.entries.values()) {
      counts[entry.row.state] = (counts[entry.row.state] ?? 0) + 1;
      shown += entry.element.hidden ? 0 : 1;
    }
    for (const state of Object.keys(STATES)) this.#chip(state, counts[state] ?? 0);
    const nothing = byId("nothing");
    const known = this.entries.size;
    if (known === 0) say(nothing, "No elections yet. Each appears here as soon as somebody stands for it.");
    else if (shown === 0) say(nothing, "No election is like that. Press Escape to see all of them.");
    show(nothing, known === 0 || shown === 0);
    mark(this.table, "aria-rowcount", String(shown + 1));
    this.shown = shown;
    this.#rove();
  }

  get summary() {
    return `${plural(this.shown, "election")} shown`;
  }

  #add(row) {
    const entry = new Entry(row, this.context);
    this.entries.set(row.election, entry);
    this.ranks.set(row.election, entry.rank);
    this.seen.observe(entry.element);
    return entry;
  }

  #lay(fresh) {
    this.order = fresh.sort(compare);
    this.table.append(...this.order.map((entry) => entry.element));
  }

  #place(entry) {
    let [low, high] = [0, this.order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.order[middle], entry) < 0) low = middle + 1;
      else high = middle;
    }
    const before = this.order[low]?.element ?? null;
    this.order.splice(low, 0, entry);
    this.ranks.set(entry.name, entry.rank);
    const { element } = entry;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    if (element.isConnected && this.table.moveBefore) this.table.moveBefore(element, before);
    else this.table.insertBefore(element, before);
    if (focused !== null && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  #move(moved) {
    const leaving = new Set(moved);
    this.order = this.order.filter((entry) => !leaving.has(entry));
    for (const entry of moved) this.#place(entry);
  }

  #remove(name) {
    const entry = this.entries.get(name);
    if (entry === undefined) return;
    this.seen.unobserve(entry.element);
    entry.element.remove();
    this.entries.delete(name);
    this.ranks.delete(name);
    this.order = this.order.filter((one) => one !== entry);
  }

  #filter(entry) {
    const wanted = (this.text === "" || entry.text.includes(this.text)) && (this.states.size === 0 || this.states.has(entry.row.state));
    show(entry.element, wanted);
  }

  #chip(state, count) {
    let chip = this.chips.get(state);
    if (chip === undefined) {
      const number = make("span", { class: "chip-count" });
      const button = make("button", { type: "button", class: "chip", "data-state": state, onclick: () => this.context.onstate(state) }, make("span", {}, STATES[state].word), number);
      chip = { button, number };
      this.chips.set(state, chip);
      byId("chips").append(button);
    }
    say(chip.number, String(count));
    show(chip.button, count > 0 || this.states.has(state) || state === "vacant" || state === "ok");
    mark(chip.button, "aria-pressed", String(this.states.has(state)));
  }

  #seen(found) {
    for (const { target, isIntersecting } of found) {
      target.entry.visible = isIntersecting;
      if (isIntersecting) {
        target.entry.tick();
        target.entry.paint();
      }
    }
  }

  #opened(entry) {
    if (entry.is_open) this.open.add(entry.name);
    else this.open.delete(entry.name);
    this.context.onopened();
  }

  // Keys. One stop for the Tab key in the whole list; the arrows move within it.

  #listen() {
    this.table.addEventListener("click", (event) => {
      const entry = event.target.closest(".entry > .row")?.parentElement.entry;
      // The whole row opens, unless somebody is copying a name out of it.
      if (entry !== undefined && (event.target.closest("button") !== null || String(getSelection()) === "")) entry.toggle();
    });
    this.table.addEventListener("keydown", (event) => {
      const entry = event.target.closest(".entry")?.entry;
      if (entry === undefined || event.target !== entry.button || event.ctrlKey || event.metaKey || event.altKey) return;
      const shown = this.order.filter((one) => !one.element.hidden);
      const at = shown.indexOf(entry);
      const last = shown.length - 1;
      const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: last, PageDown: at + 10, PageUp: at - 10 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.#focus(shown[Math.max(0, Math.min(last, to))]);
    });
    this.table.addEventListener("focusin", (event) => {
      const entry = event.target.closest(".entry")?.entry;
      if (entry !== undefined) this.#rove(entry);
    });
  }

  #focus(entry) {
    entry.button.focus();
    entry.line.scrollIntoView({ block: "nearest" });
  }

  focusFirst() {
    const first = this.order.find((entry) => !entry.element.hidden);
    if (first !== undefined) this.#focus(first);
  }

  #rove(entry = null) {
    const usable = (one) => one && this.entries.get(one.name) === one && !one.element.hidden;
    const next = entry ?? (usable(this.stop) ? this.stop : this.order.find((one) => !one.element.hidden));
    if (next === this.stop && this.stop !== undefined && this.stop.button.tabIndex === 0) return;
    if (this.stop !== undefined) this.stop.button.tabIndex = -1;
    if (next !== undefined) next.button.tabIndex = 0;
    this.stop = next;
  }
}
