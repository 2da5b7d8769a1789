/** The settings of an app on `<html>`, where its page takes them from (specification, "Settings of pages"). */

const isSetting = (key, value) =>
  /^[a-z][a-z0-9_-]*$/i.test(key) && ['string', 'number', 'boolean'].includes(typeof value);
const kebab = (key) => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/**
 * Gives `svc` its settings, of the app's `knobs`, the user's `prefs` and what is stored. `keep(settings)` stores them. Answers the function
 * that sets what the embedding page says.
 */
export function giveSettings(svc, { knobs = [], prefs = {}, settings = {} }, keep) {
  const defaults = Object.fromEntries(knobs.map((knob) => [knob.key, knob.default]));
  let stored = settings;
  /** The URL may only choose what a knob offers: a link cannot put a value of its own into the page. */
  const query = Object.fromEntries(
    [...new URLSearchParams(location.search)].filter(([key, value]) =>
      knobs.some((knob) => knob.key === key && knob.options.some((option) => option.value === value)),
    ),
  );
  /** What the embedding page has set since. */
  let live = {};

  /** Sets `data-<key>` for every setting, and `--<key>` as well for colours (`appAccent`, `appPaperColor`). */
  function apply() {
    const html = document.documentElement;
    const entries = [defaults, prefs, stored, query, live].flatMap((layer) => Object.entries(layer));
    const next = Object.fromEntries(entries.filter(([key, value]) => isSetting(key, value)));
    for (const key of Object.keys({ ...svc.settings, ...next })) {
      const name = kebab(key);
      if (key in next) html.setAttribute(`data-${name}`, next[key]);
      else html.removeAttribute(`data-${name}`);
      if (/^app\w*(Color|Accent)$/.test(key)) html.style.setProperty(`--${name}`, next[key] ?? '');
    }
    /** The settings in force, a frozen object. */
    svc.settings = Object.freeze(next);
  }

  /** Stores a change of the app's settings, for all its users; `null` takes a setting back to its default. */
  svc.saveSettings = async (patch) => {
    const next = Object.fromEntries(Object.entries({ ...stored, ...patch }).filter(([, value]) => value !== null));
    await keep(next);
    stored = next;
    for (const key of Object.keys(patch)) {
      delete query[key];
      delete live[key];
    }
    apply();
  };

  apply();
  return (patch) => {
    live = { ...live, ...patch };
    apply();
  };
}
