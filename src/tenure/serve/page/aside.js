// Beside the elections: the store, the plan against what was measured, and what happened.

import { time } from "./detail.js";
import { broken, byId, draw, make, show } from "./dom.js";
import { planned } from "./draw.js";
import { SHAPES, plural, short, told } from "./words.js";

const FEED_MAX = 60;
const PARTS = [
  ["detect", "notice that the leader is gone"],
  ["elect", "elect the next, and seal"],
  ["load", "read what it decides by"],
  ["warm", "be as quick as before"],
  ["discover", "be found by clients"],
];

let drawn_store = "";
let drawn_plan = "";

export function patchAside(head, now) {
  const store = JSON.stringify([head.store, head.refused_elsewhere]);
  if (store !== drawn_store) {
    drawn_store = store;
    byId("store-body").replaceChildren(...describeStore(head.store, head.refused_elsewhere, now));
  }
  const width = byId("plan-body").clientWidth;
  const plan = JSON.stringify([head.plan, width]);
  if (plan !== drawn_plan) {
    drawn_plan = plan;
    byId("plan-body").replaceChildren(...describePlan(head.plan, Math.max(220, width)));
  }
}

function sign(good, text) {
  return make("p", { class: `sign ${good ? "good" : "wrong"}` }, draw("svg", { viewBox: "0 0 24 24", class: "shape", "aria-hidden": "true" }, draw("path", { d: good ? SHAPES.fine : SHAPES.bad })), make("strong", {}, text));
}

function* describeStore(store, refused, now) {
  yield sign(store.ok, store.ok ? "answers" : "does not answer");
  yield make("p", { class: "address" }, make("bdi", {}, ...store.address.split(/(?<=,)/).map((host) => make("span", { class: "host" }, host))));
  if (store.since !== null) yield make("p", { class: "faint" }, store.ok ? "since " : "lost since ", time(store.since, now));
  if (store.detail) yield make("p", {}, store.detail);
  if (store.members !== null) {
    const up = store.members.filter((member) => member.ok).length;
    const all = store.members.length;
    if (store.quorum === null) yield sign(false, `${up} of the ${all} nodes up that the URL names`);
    else {
      const spare = up - store.quorum;
      const words = spare < 0 ? "no quorum" : spare === 0 && all > 1 ? "quorum, and none to spare" : "quorum";
      yield sign(spare > 0 || (spare === 0 && all === 1), `${up} of ${all} nodes up: ${words}`);
    }
    yield make("ul", { class: "members" }, ...store.members.map((member) => make("li", { class: member.ok ? "up" : "down" }, make("bdi", {}, member.name), ` ${member.ok ? "up" : "down"}`)));
  }
  if (store.best_effort) yield make("p", { class: "caution" }, make("strong", {}, "Best effort: "), store.best_effort);
  if (refused > 0) yield make("p", {}, `${plural(refused, "write")} refused by sinks of this process, of elections that it cannot tell apart.`);
}

function* describePlan(plan, width) {
  const within = plan.total_s <= plan.rto_s;
  yield sign(within, `${short(plan.total_s)} planned, ${short(plan.rto_s)} allowed`);
  yield planned(plan, width);
  yield make("dl", { class: "parts" }, ...PARTS.flatMap(([part, words]) => [make("dt", {}, make("span", { class: `swatch part-${part}` }), part, make("span", { class: "faint" }, ` ${words}`)), make("dd", { class: "number" }, short(plan[`${part}_s`]))]));
  const gaps = plan.measured.map((one) => one.gap_s).sort((one, other) => one - other);
  if (gaps.length === 0) yield make("p", { class: "faint" }, "No failover measured yet.");
  else {
    const late = gaps.filter((gap) => gap > plan.rto_s).length;
    const middle = gaps[Math.floor(gaps.length / 2)];
    yield make("p", {}, `Without a leader in the last ${plural(gaps.length, "failover")}: ${short(middle)} as a rule, ${short(gaps.at(-1))} at most${late ? `; ${late} beyond the limit` : ""}. Dots in the picture.`);
  }
}

// What the timelines know of the time before this page was opened, or while it was cut off.
export function refill(rows, now) {
  const facts = [];
  for (const row of rows.values()) {
    for (const { token, holder, from, to, reason } of row.timeline) {
      const about = { election: row.election, token, holder };
      if (from !== null) facts.push({ ...about, fact: "elected", at: from });
      if (to !== null) facts.push({ ...about, fact: "left", at: to, reason });
    }
    for (const { at, text } of row.marks) facts.push({ fact: "noted", election: row.election, at, text });
  }
  facts.sort((one, other) => (one.at < other.at ? -1 : 1));
  byId("feed").replaceChildren();
  for (const fact of facts.slice(-FEED_MAX)) feed(fact, now);
}

export function feed(fact, now) {
  const words = told(fact);
  if (words === null) return;
  const list = byId("feed");
  const name = fact.election ? make("bdi", { class: "feed-name" }, ...broken(fact.election)) : null;
  list.prepend(make("li", { class: words.loud ? "loud" : null }, time(fact.at, now), " ", name, name ? " " : null, words.text));
  while (list.childElementCount > FEED_MAX) list.lastElementChild.remove();
  show(byId("feed-empty"), false);
}
