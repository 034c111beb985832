// The script of the page. Without it the page works and reloads itself. With it the bars move, times are in the
// reader's zone, and what changes is shown as the server sends it.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const link = $("link"), news = $("news");
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  let ahead = 0; // how far the database's clock is ahead of this one, in milliseconds
  let stream = null, greeted = false, fetching = false, again = false, lastFetch = 0;

  // Times.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const clock = new Intl.DateTimeFormat(undefined,
    { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" });
  const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
  const showTimes = (of) => {
    const today = day.format(new Date(Date.now() + ahead));
    for (const time of all("[datetime]:not([data-here])", of)) {
      const date = new Date(time.getAttribute("datetime"));
      time.dataset.here = "";
      if (Number.isNaN(date.getTime())) continue;
      const utc = time.textContent.trim(), on = day.format(date);
      time.title = on + " " + clock.format(date) + ", " + zone + " = " + utc;
      time.textContent = (on === today ? "" : on + " ") + clock.format(date);
    }
  };

  // Lengths, as the server writes them.
  const length = (seconds) => {
    const s = Math.max(0, Math.floor(seconds));
    const units = (big, bigName, small, smallName) => {
      const rest = Math.floor((s % big) / small);
      return Math.floor(s / big) + bigName + (rest > 0 ? " " + rest + smallName : "");
    };
    if (s < 60) return s + "s";
    if (s < 3600) return units(60, "m", 1, "s");
    if (s < 48 * 3600) return units(3600, "h", 60, "m");
    return units(86400, "d", 3600, "h");
  };

  // Bars burn down, by the database's clock.
  const number = (rect, name) => Number(rect ? rect.getAttribute(name) : 0);
  const moveBar = (bar, now) => {
    const limit = Number(bar.dataset.limit);
    const left = Math.max(0, limit - (now - Number(bar.dataset.since)) / 1000);
    const part = Math.round(Math.min(1, left / limit) * 1000) / 10;
    const text = length(left);
    const value = bar.parentElement.querySelector(".value b");
    if (value.textContent !== text) value.textContent = text;
    if (bar.getAttribute("aria-valuenow") === String(part)) return;
    bar.setAttribute("aria-valuenow", part);
    bar.setAttribute("aria-valuetext", text + " left of " + length(limit));
    bar.querySelector(".left").setAttribute("width", part);
    const reserve = number(bar.querySelector(".reserve"), "width");
    const warned = Math.max(-1, ...all(".warning", bar).map((rect) => number(rect, "x1")));
    const level = part <= 0 ? "spent" : part <= reserve ? "reserve" : part <= warned ? "warned" :
      warned < 0 && part <= 20 ? "low" : "";
    bar.parentElement.className = "limit" + (level ? " " + level : "");
  };
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now() + ahead;
    for (const bar of all("svg[data-limit]")) moveBar(bar, now);
    for (const age of all("[data-age]")) {
      const text = length((now - Number(age.dataset.age)) / 1000);
      if (age.textContent !== text) age.textContent = text;
    }
  };
  const setNow = (now) => { if (now) ahead = Number(now) - Date.now(); };

  // What a screen reader says, and, unless it is hidden, a note shows for a while.
  const announce = (text, look) => {
    news.className = look;
    news.textContent = text;
    clearTimeout(announce.timer);
    announce.timer = setTimeout(() => { news.textContent = ""; }, 8000);
  };

  // The reader's own page, fetched again: for what a frame cannot say of every page.
  const load = async (parts) => {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"), parts);
    } catch { /* the stream says when the server is back */ }
  };
  const refetch = (wait) => {
    if (fetching) { again = true; return; }
    fetching = true;
    setTimeout(async () => {
      lastFetch = Date.now();
      await load("[data-swap]");
      fetching = false;
      if (again) { again = false; refetch(0); return; }
      if (choose.chosen) announce(all("#runs > tr").length + " runs on this page", "news hidden");
      choose.chosen = false;
    }, Math.max(wait, lastFetch + 1000 - Date.now()));
  };
  const later = () => { // the counts alone: a run that has just ended may have no place on the page any more
    if (!later.timer) later.timer = setTimeout(() => { later.timer = 0; load("b[data-swap]"); }, 10000);
  };
  const swap = (page, parts) => {
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    for (const part of all(parts)) {
      const next = page.getElementById(part.id);
      if (!next) continue;
      setNow(next.dataset.now);
      const inside = part.contains(document.activeElement);
      part.replaceWith(document.adoptNode(next));
      showTimes(next);
      if (inside && focused) {
        const same = all("a", next).find((a) => a.getAttribute("href") === focused);
        if (same) same.focus({ preventScroll: true });
      }
    }
    tick();
  };

  // Filters, at once.
  const form = document.querySelector("form.filter");
  const choose = () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", "?" + query);
    choose.chosen = true;
    refetch(0);
  };
  if (form) form.addEventListener("input", () => { clearTimeout(choose.timer); choose.timer = setTimeout(choose, 300); });

  // Frames.
  const rows = () => new Map(all("#runs > tr").map((tr) => [tr.dataset.run, tr]));
  const wants = (page, row) => "first" in page.dataset && row.live && (!page.dataset.host || page.dataset.host === row.host);
  const put = (page, shown, row) => {
    const old = shown.get(row.run);
    if (!old && !wants(page, row)) return;
    const body = $("runs");
    if (!body) { refetch(0); return; }
    const template = document.createElement("template");
    template.innerHTML = row.html;
    const next = template.content.firstElementChild;
    showTimes(next);
    next.classList.add("changed");
    shown.set(row.run, next);
    const around = old ? null : shown.get(row.parent);
    const depth = old ? old.dataset.depth : around && Number(around.dataset.depth || 0) + 1;
    if (depth) next.dataset.depth = depth;
    if (around) { around.after(next); return; }
    if (!old) { body.prepend(next); return; }
    const focused = old.contains(document.activeElement);
    old.replaceWith(next);
    if (focused) next.querySelector("a").focus({ preventScroll: true });
  };
  const tell = (changed) => {
    const over = changed.filter((row) => row.said);
    if (!over.length) return;
    announce(over.length > 3 ? over.length + " runs have ended" :
      over.map((row) => "\u2068" + row.run.slice(0, 80) + "\u2069 " + row.said).join(". "), "news");
  };
  const listed = (frame, page) => {
    const shown = rows();
    if ((frame.rows || []).some((row) => !row.live || !shown.has(row.run))) later();
    for (const row of frame.rows || []) put(page, shown, row);
    tell((frame.rows || []).filter((row) => shown.has(row.run)));
    if (!frame.all) return;
    const present = frame.present || {};
    let stale = greeted;
    for (const [run, tr] of shown) {
      if ("live" in tr.dataset && tr.dataset.version !== present[run] && !frame.more) stale = true;
    }
    if ("first" in page.dataset && !page.dataset.host && !frame.more && !document.querySelector("a[rel=next]")) {
      stale = stale || Object.keys(present).some((run) => !shown.has(run));
    }
    if (stale) refetch(greeted ? Math.random() * 1000 : 0);
    greeted = true;
  };
  const told = (frame, page) => {
    const run = page.dataset.pageRun;
    const mine = (id) => id === run || id.startsWith(run + "/");
    const hit = (frame.rows || []).filter((row) => mine(row.run) || row.parent === run);
    const stale = frame.all && (greeted || (page.dataset.version || "") !== ((frame.present || {})[run] || page.dataset.version || ""));
    if (frame.all) greeted = true;
    tell(hit);
    if (hit.length || stale) refetch(0);
  };
  const take = (frame) => {
    setNow(frame.now);
    say(frame.trouble ? "the database does not answer" : "live", !frame.trouble);
    if ($("rows")) listed(frame, $("rows"));
    if ($("story")) told(frame, $("story"));
    tick();
  };

  // The stream. A hidden page has none.
  const say = (text, on) => { link.textContent = text; link.className = "link " + (on ? "on" : "off"); };
  const open = () => {
    if (stream || document.hidden) return;
    stream = new EventSource("?live");
    stream.onmessage = (event) => take(JSON.parse(event.data));
    stream.onerror = () => {
      say("connecting again", false);
      if (stream.readyState !== EventSource.CLOSED) return;
      close();
      say("updates every 10 seconds", false);
      refetch(0);
      setTimeout(open, 10000);
    };
  };
  const close = () => { if (stream) stream.close(); stream = null; };
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });

  for (const part of all("[data-now]")) setNow(part.dataset.now);
  $("zone").textContent = zone;
  showTimes(document);
  tick();
  setInterval(tick, 1000);
  if ($("rows") || $("story")) open();
  // What no frame tells of: a pass of the sweeper, and the events of a run that goes on.
  setInterval(() => {
    const story = $("story");
    if (!document.hidden && (story ? "live" in story.dataset : !$("rows"))) refetch(0);
  }, 5000);
})();
