// Times in the viewer's zone, countdowns, pages that refresh themselves, forms that are checked while one types.
// Without it every page still works: times are then UTC, and forms are checked when they are sent.
(() => {
  "use strict";
  const kept = { zone: "onbeat.zone", held: "onbeat.held" };
  const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const read = (name) => { try { return localStorage.getItem(name) || ""; } catch { return ""; } };
  const write = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a private window */ } };
  const isZone = (name) => { try { new Intl.DateTimeFormat("en", { timeZone: name }); return true; } catch { return false; } };
  const chosenZone = () => { const zone = read(kept.zone); return zone && isZone(zone) ? zone : browserZone; };
  let ahead = 0; // milliseconds by which the server's clock is ahead of this one

  // ── Times ────────────────────────────────────────────────────────────────────────────────────────────────────
  const formats = new Map();
  const written = (moment, zone, style) => {
    const isThisYear = moment.getFullYear() === new Date().getFullYear();
    const name = `${zone} ${style} ${isThisYear}`;
    if (!formats.has(name)) {
      const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
      if (style !== "short" && style !== "clock5") clock.second = "2-digit";
      const day = style.startsWith("clock") ? {} : { day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) };
      if (style === "day") day.weekday = "short";
      formats.set(name, new Intl.DateTimeFormat("en-GB", { ...day, ...clock, timeZone: zone }));
    }
    return formats.get(name).format(moment);
  };
  const showTimes = (root) => {
    const zone = chosenZone();
    for (const time of root.querySelectorAll("time.ob-time")) {
      const moment = new Date(time.dateTime);
      time.textContent = written(moment, zone, time.dataset.style || "full");
      time.title = `${time.dataset.hover}\n${written(moment, zone, "full")} ${zone} (shown)`;
    }
    for (const name of root.querySelectorAll("[data-viewer-zone]")) name.textContent = zone;
    for (const input of root.querySelectorAll("input[name=viewer_zone]")) input.value = zone;
    for (const input of root.querySelectorAll("input[data-instant]")) {
      if (input.dataset.instant && !input.dataset.shown) { input.value = wallClock(new Date(input.dataset.instant), zone); input.dataset.shown = "1"; }
    }
  };
  const wallClock = (moment, zone) => {
    const parts = Object.fromEntries(new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit",
      hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).formatToParts(moment).map((part) => [part.type, part.value]));
    return `${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}:${parts.second}`;
  };
  const inWords = (seconds) => {
    const away = Math.abs(Math.round(seconds));
    const [d, h, m, s] = [Math.floor(away / 86400), Math.floor(away / 3600) % 24, Math.floor(away / 60) % 60, away % 60];
    const words = d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
    return seconds >= 0 ? `in ${words}` : `${words} ago`;
  };
  const countDown = () => {
    const now = Date.now() + ahead;
    for (const each of document.querySelectorAll("[data-until]")) each.textContent = inWords((new Date(each.dataset.until) - now) / 1000);
  };
  const chooseZone = () => {
    const select = document.querySelector(".ob-zone select");
    if (!select) return;
    const names = ["", "UTC", ...(Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [])];
    const chosen = read(kept.zone);
    if (chosen && !names.includes(chosen)) names.push(chosen);
    select.replaceChildren(...names.map((name) => new Option(name || `Browser: ${browserZone}`, name, false, name === chosen)));
    select.disabled = false;
    select.addEventListener("change", () => {
      write(kept.zone, select.value);
      for (const input of document.querySelectorAll("input[data-shown]")) delete input.dataset.shown;
      showTimes(document);
    });
  };

  // ── Hover and focus on charts and strips ─────────────────────────────────────────────────────────────────────
  let tip;
  const hideTip = () => { tip?.remove(); tip = undefined; };
  const showTip = (event) => {
    const place = event.target.closest?.("[data-tip]");
    if (!place) return hideTip();
    tip = tip || document.body.appendChild(Object.assign(document.createElement("div"), { className: "ob-tip" }));
    const at = place.dataset.at ? `${written(new Date(place.dataset.at), chosenZone(), "short")}\n` : "";
    tip.textContent = at + place.dataset.tip;
    const box = place.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(box.left + box.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 6))}px`;
    tip.style.top = `${Math.max(6, box.top - tip.offsetHeight - 8)}px`;
  };

  // ── What refreshes itself ────────────────────────────────────────────────────────────────────────────────────
  const refresh = () => {
    const live = document.querySelector("[data-refresh]");
    if (!live) return;
    const button = document.querySelector("[data-hold]");
    const isHeld = () => read(kept.held) === "1";
    const tell = () => {
      if (!button) return;
      button.setAttribute("aria-pressed", String(isHeld()));
      button.querySelector("b").textContent = isHeld() ? "Held" : "Live";
      button.querySelector(".material-symbols-outlined").textContent = isHeld() ? "play_arrow" : "pause";
      button.title = isHeld() ? "Refresh again" : "Hold the page as it is";
    };
    button?.addEventListener("click", () => { write(kept.held, isHeld() ? "" : "1"); tell(); if (!isHeld()) load(); });
    tell();
    let isLoading = false;
    const load = async () => {
      if (isHeld() || document.hidden || isLoading || live.contains(document.activeElement)) return;
      isLoading = true;
      try {
        const answer = await fetch(live.dataset.refresh, { credentials: "same-origin", headers: { "X-Onbeat-Part": "1" } });
        if (answer.redirected) return location.reload(); // signed out meanwhile
        if (!answer.ok) throw new Error(answer.status);
        const html = await answer.text();
        if (isHeld()) return;
        live.innerHTML = html;
        live.classList.remove("ob-stale");
        hideTip(); ready(live);
      } catch { document.querySelector("[data-stale]")?.removeAttribute("hidden"); isLoading = false; return; }
      isLoading = false;
      document.querySelector("[data-stale]")?.setAttribute("hidden", "");
    };
    setInterval(load, Number(live.dataset.every || 10) * 1000);
  };

  // ── Forms ────────────────────────────────────────────────────────────────────────────────────────────────────
  const checkWhileTyping = (root) => {
    for (const place of root.querySelectorAll("[data-check]")) {
      const form = place.closest("form");
      let timer, asked = 0;
      const ask = async () => {
        const mine = ++asked;
        const words = new URLSearchParams([...new FormData(form)].filter(([name, value]) => typeof value === "string" && name !== "csrfmiddlewaretoken" && place.dataset.names.split(" ").includes(name)));
        const answer = await fetch(`${place.dataset.check}?${words}`, { credentials: "same-origin" }).catch(() => null);
        if (mine !== asked || !answer?.ok || answer.redirected) return;
        place.innerHTML = await answer.text();
        ready(place);
      };
      form.addEventListener("input", (event) => {
        if (!place.dataset.names.split(" ").includes(event.target.name)) return;
        clearTimeout(timer); timer = setTimeout(ask, 250);
      });
      ask();
    }
  };
  const showWhatIsChosen = (root) => {
    for (const form of root.querySelectorAll("form[data-choices]")) {
      const apply = () => {
        for (const part of form.querySelectorAll("[data-if]")) {
          const [name, ...values] = part.dataset.if.split(" ");
          part.hidden = !values.includes(form.elements[name]?.value);
        }
      };
      form.addEventListener("change", apply);
      apply();
    }
  };
  const selection = (root) => {
    for (const form of root.querySelectorAll("form[data-selection]")) {
      const all = form.querySelector("[data-select-all]");
      const boxes = () => [...form.querySelectorAll("input[name=selected]")];
      const tell = () => {
        const count = boxes().filter((box) => box.checked).length;
        for (const button of form.querySelectorAll("[data-needs-selection]")) button.disabled = !count;
        for (const word of form.querySelectorAll("[data-selected]")) word.textContent = count ? `${count} selected` : "Select executions to act on them";
        if (all) { all.checked = count > 0 && count === boxes().length; all.indeterminate = count > 0 && !all.checked; }
      };
      all?.addEventListener("change", () => { for (const box of boxes()) box.checked = all.checked; tell(); });
      form.addEventListener("change", tell);
      tell();
    }
  };
  const once = (root) => {
    for (const form of root.querySelectorAll("form[method=post]:not([data-once])")) {
      form.dataset.once = "1";
      form.addEventListener("submit", () => setTimeout(() => { for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = true; }));
    }
  };
  // A page that comes back from the browser's memory has its buttons again.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // ── Unfold's lists ───────────────────────────────────────────────────────────────────────────────────────────
  // It measures them before there are icons in place of their names and times in place of longer ones.
  const measureAgain = () => {
    for (const list of document.querySelectorAll("[data-simplebar]")) window.SimpleBar?.instances.get(list)?.recalculate();
  };
  addEventListener("load", () => document.fonts.ready.then(measureAgain));

  // ── Unfold's own clickable spans, for the keyboard ───────────────────────────────────────────────────────────
  const reachable = () => {
    for (const icon of document.querySelectorAll(".material-symbols-outlined:not([aria-hidden])"))
      if (icon.parentElement.textContent.trim() !== icon.textContent.trim()) icon.ariaHidden = "true"; // beside a word: not to be read out
    for (const input of document.querySelectorAll("input[x-ref=searchInput]")) input.setAttribute("aria-label", "Search");
    const names = { dock_to_right: "Show or hide the menu", close: "Close the menu", filter_list: "Filters" };
    for (const each of document.querySelectorAll("span[x-on\\:click], a[x-on\\:click]:not([href]), div[x-on\\:click].cursor-pointer")) {
      if (each.hasAttribute("tabindex")) continue;
      each.tabIndex = 0;
      each.setAttribute("role", "button");
      const name = names[each.textContent.trim()];
      if (name) each.setAttribute("aria-label", name);
      each.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); each.click(); } });
    }
  };

  const ready = (root) => { showTimes(root); countDown(); checkWhileTyping(root); showWhatIsChosen(root); selection(root); once(root); };
  document.addEventListener("DOMContentLoaded", () => {
    const now = document.querySelector("[data-now]")?.dataset.now;
    if (now) ahead = new Date(now) - Date.now();
    chooseZone(); ready(document); refresh(); reachable();
    setInterval(countDown, 1000);
    for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, showTip);
    for (const kind of ["mouseout", "focusout", "scroll"]) document.addEventListener(kind, hideTip, true);
  });
})();
