// What opens below a row: the leader, who waits, how close it was, every tenure that is known, and what can be done about it.

import { draw, make, mark, say, show } from "./dom.js";
import { sparkline, strip } from "./draw.js";
import { REASONS, both, clock, lasting, named, plural, short } from "./words.js";

const RECORD_MAX = 30;

function recorded(one) {
  return {
    token: one.token,
    holder: one.holder,
    from: one.began_at,
    to: one.ended_at ?? one.ended_before,
    reason: one.reason ?? "",
    gap_s: one.gap_s ?? one.gap_max_s,
    margin_min_s: one.margin_min_s,
    unrecorded: one.unrecorded,
  };
}

// What is told of the time before a tenure is of the time since the one that comes before it where it is told.
const following = (stints) => stints.map((stint, at) => ({ ...stint, after: stints[at - 1]?.token ?? null }));

// By token, which is one tenure for ever. What was seen here is newer than what is on record, where both know.
function together(record, seen) {
  const known = new Map(following(record).map((stint) => [stint.token, stint]));
  for (const stint of following(seen)) {
    const told = known.get(stint.token) ?? stint;
    // Who vanished, as far as was read before, may have said meanwhile why it left.
    const news = Object.entries(stint).filter(([key, value]) => value !== null && value !== "" && value !== false && !(key === "reason" && value === "vanished" && told.reason));
    const joined = { ...told, ...Object.fromEntries(news) };
    // Of the time before it the one knows better that knows of a later tenure there.
    const { after, gap_s, unrecorded } = told.after === stint.after ? joined : told.after > stint.after ? told : stint;
    known.set(stint.token, { ...joined, after, gap_s, unrecorded });
  }
  const ordered = [...known.values()].sort((one, other) => one.token - other.token);
  return ordered.map((stint, at) => ({ ...stint, ...between(ordered[at - 1], stint) }));
}

// The time between two tenures, by the rule of the server's timeline: it is counted, unless it was told of these very two.
function between(before, { after, from, gap_s, unrecorded }) {
  const holds = after === null || before?.token === after;
  if (holds && unrecorded) return { gap_s: null, unrecorded };
  if (holds && gap_s !== null) return { gap_s, unrecorded };
  const is_known = before !== undefined && before.to !== null && from !== null;
  return { gap_s: is_known ? Math.max(0, Date.parse(from) - Date.parse(before.to)) / 1000 : null, unrecorded: false };
}

export class Detail {
  constructor(entry) {
    this.entry = entry;
    this.context = entry.context;
    this.drawn = {};
    this.facts = make("dl", { class: "facts" });
    this.queue = make("div");
    this.margins = make("div");
    this.picture = make("div", { class: "big-strip" });
    this.tenures = make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": `Tenures of ${entry.name}` });
    this.marks = make("div");
    this.resign = make("button", { type: "button", onclick: () => this.context.onask(entry.name, "resign", this.resign) }, "Ask to resign…");
    this.transfer = make("button", { type: "button", onclick: () => this.context.onask(entry.name, "transfer", this.transfer) }, "Hand over…");
    this.denied = make("p", { class: "faint" });
    this.lease = make("dd");
    this.element = make(
      "div",
      { role: "row", class: "detail", id: `${entry.id}-detail` },
      make(
        "div",
        { role: "cell", class: "detail-cell" },
        this.picture,
        make("div", { class: "columns" },
          section("Leader", this.facts, make("p", { class: "actions" }, this.resign, this.transfer), this.denied),
          section("Standby queue", this.queue),
          section("How close renewals were", this.margins),
        ),
        make("div", { class: "columns two" }, section("Tenures, the newest first", this.tenures), section("Refused writes and notes", this.marks)),
      ),
    );
    this.record = [];
    this.timeline = entry.row.timeline;
    this.patch(entry.row);
    this.#read(entry.name);
  }

  // The durable record goes further back than what this server has seen. Not every server has one to read.
  async #read(name) {
    try {
      const answer = await fetch(`v1/elections/${encodeURIComponent(name)}/history?limit=${RECORD_MAX}`, { cache: "no-store" });
      if (!answer.ok) return;
      this.record = (await answer.json()).tenures.map(recorded);
    } catch {
      return; // What the server has seen is shown as it is.
    }
    this.drawn.known = null;
    this.patch(this.entry.row);
  }

  patch(row) {
    const { drawn } = this;
    const told = JSON.stringify([row.leader, row.since, row.here, row.state, row.why, row.resign_asked]);
    if (drawn.leader !== told) {
      drawn.leader = told;
      this.#leader(row);
    }
    if (drawn.standbys !== String(row.standbys)) {
      drawn.standbys = String(row.standbys);
      const queue = row.standbys.map((holder) => make("li", {}, make("bdi", { title: holder }, named(holder))));
      this.queue.replaceChildren(queue.length ? make("ol", { class: "queue" }, ...queue) : make("p", { class: "faint" }, "Nobody stands by: if the leader goes, nobody follows."));
    }
    if (drawn.margins !== row.margins) {
      drawn.margins = row.margins;
      this.#margins(row);
    }
    if (drawn.known !== row.timeline) {
      drawn.known = row.timeline;
      this.timeline = together(this.record, row.timeline);
      this.tenures.replaceChildren(this.timeline.length ? this.#tenures(this.timeline) : make("p", { class: "faint" }, "None seen yet."));
    }
    if (drawn.marks !== row.marks) {
      drawn.marks = row.marks;
      this.#marks(row);
    }
    const { read_only } = this.context.head();
    const nobody = row.leader === null;
    this.resign.disabled = nobody || read_only;
    this.transfer.disabled = nobody || read_only || row.standbys.length === 0;
    const why = read_only ? "This page only shows: its server takes no orders." : nobody ? "" : row.standbys.length === 0 ? "Nobody stands by to hand over to." : "";
    say(this.denied, why);
    show(this.denied, why !== "");
    this.tick();
  }

  tick() {
    const { row } = this.entry;
    const left_s = row.remaining_s === null ? null : row.remaining_s - (this.context.now() - Date.parse(row.as_of)) / 1000;
    say(this.lease, left_s === null ? "the store does not tell" : row.state === "ok" ? "renewed in time" : left_s > 0 ? `ends in ${short(left_s)} unless it is renewed` : "over");
    const width = Math.max(200, this.picture.clientWidth || this.context.strip_width);
    const now = this.context.now();
    const step_ms = (this.context.span_s * 1000) / width;
    const same = this.drawn.strip === this.timeline && this.drawn.strip_marks === row.marks && this.drawn.span_s === this.context.span_s && this.drawn.width === width;
    if (same && now - this.drawn.at < step_ms) return;
    Object.assign(this.drawn, { strip: this.timeline, strip_marks: row.marks, span_s: this.context.span_s, width, at: now });
    const axis = make("p", { class: "axis", "aria-hidden": "true" }, make("span", {}, clock(now - this.context.span_s * 1000, now)), make("span", {}, `${clock(now, now)} now`));
    this.picture.replaceChildren(strip({ timeline: this.timeline, marks: row.marks }, now, this.context.span_s, width, 34), axis);
  }

  #leader(row) {
    const { leader } = row;
    const rows = [];
    if (row.why !== "") rows.push(["Verdict", row.why]);
    if (leader !== null) {
      rows.push(["Holder", make("bdi", {}, leader.holder)], ["Token", String(leader.token)]);
      if (leader.advertised) rows.push(["Reached at", make("bdi", {}, leader.advertised)]);
      rows.push(["Since", row.since === null ? "before anybody here looked" : time(row.since, this.context.now())]);
      rows.push(["Lease", this.lease]);
    }
    if (row.here !== "none") rows.push(["Here", row.here === "leading" ? "leads through this server" : "stands through this server"]);
    if (row.resign_asked) rows.push(["Asked", "it was asked to leave"]);
    this.facts.replaceChildren(...rows.flatMap(([term, said]) => [make("dt", {}, term), said === this.lease ? said : make("dd", {}, said)]));
  }

  #margins(row) {
    const count = row.margins.length;
    if (count === 0) {
      const why = row.leader === null ? "Nobody renews." : "Not known: another process renews, and the store does not tell.";
      this.margins.replaceChildren(make("p", { class: "faint" }, why));
      return;
    }
    const least = Math.min(...row.margins);
    const by = row.margins_from === "here" ? "as its holder measured" : "as seen in the store";
    this.margins.replaceChildren(
      sparkline(row.margins, 240, 48),
      make("p", {}, `Last ${short(row.margins.at(-1))}, least ${short(least)} before the end of the lease, in ${plural(count, "renewal")}, ${by}.`),
    );
  }

  #tenures(timeline) {
    const now = this.context.now();
    const head = ["Token", "Who", "From", "To", "Lasted", "Ended", "Gap before", "Least margin"];
    const last = timeline.at(-1).token;
    const lines = timeline.toReversed().map((stint) => {
      const lasted = stint.from === null ? "–" : lasting((Date.parse(stint.to ?? new Date(now).toISOString()) - Date.parse(stint.from)) / 1000);
      return make(
        "tr",
        {},
        make("td", { class: "number" }, String(stint.token)),
        make("td", {}, make("bdi", { title: stint.holder }, named(stint.holder))),
        make("td", {}, stint.from === null ? "–" : time(stint.from, now)),
        make("td", {}, stint.to !== null ? time(stint.to, now) : stint.token === last ? "in office" : "not seen to leave"),
        make("td", { class: "number" }, stint.to === null ? "–" : lasted),
        make("td", {}, stint.to === null ? "" : REASONS[stint.reason] ?? stint.reason),
        make("td", { class: "number" }, stint.gap_s === null ? "–" : short(stint.gap_s)),
        make("td", { class: "number" }, stint.margin_min_s === null ? "–" : short(stint.margin_min_s)),
      );
    });
    return make("table", { class: "tenures" }, make("thead", {}, make("tr", {}, ...head.map((word) => make("th", { scope: "col" }, word)))), make("tbody", {}, ...lines));
  }

  #marks(row) {
    const now = this.context.now();
    const items = row.marks.toReversed().map((one) => make("li", { class: one.kind }, draw("svg", { viewBox: "0 0 10 10", class: "bullet", "aria-hidden": "true" }, draw("path", { d: one.kind === "refused" ? "M5 0l5 10H0z" : "M3.5 0h3v10h-3z" })), time(one.at, now), " ", one.text));
    this.marks.replaceChildren(items.length ? make("ul", { class: "marks" }, ...items) : make("p", { class: "faint" }, "None."));
  }
}

export function time(iso, now) {
  const at = Date.parse(iso);
  return make("time", { datetime: iso, title: both(at) }, clock(at, now));
}

function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}
