// The line from the kernel: the whole state once, then what has changed. Nothing is asked of any address.

import {merge, ofOverview} from "../deltas.js";

const STALE_SECONDS = 5;
const MOST_ASKED = 3; // in a row without an answer: the kernel may be gone for good

/** The figures of one model of the widget, for all of its views in this notebook.
 *
 * `state`: {name, page, plan, overview, sentence, watermarks, shown}. `line`: {live, over, since}.
 */
export class Feed {
  constructor(model) {
    this.state = {shown: null};
    this.line = {live: false, over: false, since: null};
    this.version = -1;
    this.heard = Date.now();
    this.asked = 0;
    this.listeners = new Set();
    this.timer = 0;
    this.model = model;
    this.onWhole = () => this.takeWhole(JSON.parse(model.get("whole")));
    this.onMessage = (message) => message?.delta && this.takeDelta(JSON.parse(message.delta));
    model.on("change:whole", this.onWhole);
    model.on("msg:custom", this.onMessage);
    if (model.get("whole")) this.onWhole();
  }

  close() {
    this.model.off("change:whole", this.onWhole);
    this.model.off("msg:custom", this.onMessage);
    this.cut();
  }

  /** Calls back with each change; returns what ends that. */
  listen(listener) {
    this.listeners.add(listener);
    this.timer ||= setInterval(() => this.watch(), 1000);
    this.asked = 0; // somebody looks again
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size) return;
      clearInterval(this.timer);
      this.timer = 0;
    };
  }

  takeWhole({version, over, state}) {
    if (version < this.version) return; // what came by a difference is newer
    this.version = version;
    this.show(state, over);
  }

  takeDelta({version, over, patch}) {
    this.asked = 0;
    if (version <= this.version) return;
    if (version > this.version + 1) {
      this.ask(); // one was lost
      return;
    }
    this.version = version;
    this.show(merge(this.state, patch), over);
  }

  show(state, over) {
    this.heard = Date.now();
    this.asked = 0;
    this.state = {...state, shown: ofOverview(state.overview)};
    this.line = {live: !over, over, since: state.overview?.at ?? null};
    this.changed();
  }

  watch() {
    if (this.line.over) return;
    const silent = (Date.now() - this.heard) / 1000;
    if (silent > STALE_SECONDS) this.cut();
    if (silent > STALE_SECONDS * 2 ** this.asked && this.asked < MOST_ASKED) this.ask();
  }

  ask() {
    this.asked += 1;
    try {
      this.model.send({ask: "whole"});
    } catch {
      // there is no kernel: what is known stays
    }
  }

  cut() {
    if (!this.line.live) return;
    this.line = {...this.line, live: false};
    this.changed();
  }

  changed() {
    for (const listener of this.listeners) listener();
  }
}
