/**
 * Runs the modules of a page that is one document, as a browser runs modules: each once, after what it imports, with names that
 * follow their values. `definitions` is path → what it imports, and the function that `workers/jobs/mcp-page/` makes of its text.
 */

/** Addresses of modules count from here. */
const ROOT = 'http://page.invalid/';

/** Answers what runs a module by its path: a promise where it has to wait, a throw where it fails. */
export function linkModules(definitions) {
  /** Key → module. `step` is where it is: `linked`, `running`, `done` or `failed`. */
  const modules = new Map();

  function link(key) {
    const known = modules.get(key);
    if (known) return known;
    if (!Object.hasOwn(definitions, key)) throw new TypeError(`The page has no module "${key}".`);
    const [imports, make] = definitions[key];
    const module = { names: Object.create(null), imports: [], stars: [], step: 'linked', ending: undefined };
    modules.set(key, module);
    module.imports = imports.map(link);
    const context = {
      export: (getters) => {
        for (const [name, get] of Object.entries(getters)) give(module, name, get);
      },
      star: (names) => module.stars.push(names),
      load: async (specifier) => {
        const loaded = link(keyOf(String(specifier), key));
        settleStars();
        await run(loaded);
        return loaded.names;
      },
      meta: { url: new URL(key, ROOT).href },
    };
    module.body = make(context, ...module.imports.map(({ names }) => names));
    // To its `yield`: now its functions are there, and what it exports.
    module.begun = module.body.next();
    return module;
  }

  const give = (module, name, get) => Object.defineProperty(module.names, name, { get, enumerable: true });

  /** Until nothing is left to give: two modules may export everything of each other. */
  function settleStars() {
    while ([...modules.values()].some(takeStars)) {
      // Each turn gave something.
    }
  }

  /** Whether it gave the module a name. */
  function takeStars(module) {
    const others = module.stars.flatMap((names) =>
      Object.keys(names).map((name) => ({ name, get: () => names[name] })),
    );
    const missing = others.filter(({ name }) => name !== 'default' && !(name in module.names));
    for (const { name, get } of missing) if (!(name in module.names)) give(module, name, get);
    return missing.length > 0;
  }

  function keyOf(specifier, from) {
    if (Object.hasOwn(definitions, specifier)) return specifier;
    const base = new URL(from, ROOT);
    const path = URL.canParse(specifier, base) ? new URL(specifier, base).pathname.slice(1) : specifier;
    return decodeURIComponent(path);
  }

  /** Answers a promise where it has to wait. One that it imports and that is running waits for it. */
  function run(module) {
    if (module.step === 'failed') throw module.error;
    if (module.step !== 'linked') return module.ending;
    module.step = 'running';
    const fail = (error) => {
      module.step = 'failed';
      module.error = error;
      throw error;
    };
    try {
      let waiting;
      for (const other of module.imports) waiting = waiting ? waiting.then(() => run(other)) : run(other);
      const begin = () =>
        module.begun instanceof Promise ? module.begun.then(() => module.body.next()) : module.body.next();
      const ended = waiting ? waiting.then(begin) : begin();
      module.step = 'done';
      if (ended instanceof Promise) module.ending = ended.then(() => {}, fail);
      return module.ending;
    } catch (error) {
      return fail(error);
    }
  }

  return (key) => {
    const module = link(key);
    settleStars();
    return run(module);
  };
}
