/** Gathers the modules of a page, with everything that they import, as one script (specification, "MCP Apps"). */

import { PAGE_FILE } from '../../../protocol/http/mcp-app.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Lines, stepsWithin, TookTooLong } from '../../../protocol/rules/gates/syntax.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { scriptJson, scriptText } from './escapes.ts';
import { type ModuleText, moduleText } from './module-text.ts';
import type { PageFiles } from './page-files.ts';
import { inlineStyles } from './styles.ts';

/** What a module is called in the document: its path, with its own name for one that stands in the page. */
type Key = string;

export class PageModules {
  readonly #files: PageFiles;
  readonly #step = stepsWithin(LIMITS.mcpPageParseMs);
  /** Key → what is written; null while that is under way, and for what has a fault. */
  readonly #written = new Map<Key, string | null>();
  #imports: Record<string, unknown> = {};

  constructor(files: PageFiles) {
    this.#files = files;
  }

  /** What names mean, as an import map of the page says. */
  map(json: string): void {
    try {
      const { imports } = JSON.parse(json) as { imports?: unknown };
      if (isRecord(imports)) this.#imports = { ...imports, ...this.#imports };
    } catch {
      this.#files.fault(PAGE_FILE, 'Its import map is not JSON.', 'importmap');
    }
  }

  /** The key of a module in the page's own text. */
  inline(text: string): Key {
    const key = `${PAGE_FILE}#${this.#written.size + 1}`;
    this.#add(key, PAGE_FILE, text);
    return key;
  }

  /** The key of a file; null where there is none. */
  file(address: string): Key | null {
    return this.#target(address, PAGE_FILE);
  }

  /** The script that defines them all; empty without modules. */
  definitions(): string {
    const all = [...this.#written].map(([key, text]) => `${scriptJson(key)}: ${text ?? 'null'}`);
    return all.length === 0 ? '' : `svcModules({\n${all.join(',\n')}\n});`;
  }

  #target(specifier: string, from: string): Key | null {
    const found = this.#files.find(specifier, from);
    if (found === null) return null;
    const { path } = found;
    if (this.#written.has(path) || this.#files.isTooLarge) return path;
    if (path.endsWith('.json')) this.#written.set(path, dataModule(this.#files.text(path)));
    else if (path.endsWith('.css')) {
      const css = inlineStyles(this.#files.text(path), this.#files, path);
      this.#written.set(
        path,
        valueModule(
          `(() => { const sheet = new CSSStyleSheet(); sheet.replaceSync(${scriptJson(css)}); return sheet; })()`,
        ),
      );
    } else this.#add(path, path, this.#files.text(path));
    return path;
  }

  #add(key: Key, path: string, text: string): void {
    this.#written.set(key, null);
    const module = this.#parse(path, text);
    if (module === null) return;
    const keys = module.imports.map((specifier) => this.#imported(specifier, path));
    if (keys.includes(null)) return;
    this.#written.set(key, `[${scriptJson(keys)}, ${scriptText(module.code)}]`);
  }

  #parse(path: string, text: string): ModuleText | null {
    const resolve = {
      dynamic: (specifier: string) => this.#target(this.#mapped(specifier), path),
      asset: (address: string) => this.#files.inlined(address, path),
    };
    try {
      const module = moduleText(text, resolve, this.#step);
      if (!('message' in module)) return module;
      const { line, column } = new Lines(text).position(module.at);
      this.#files.fault(path, `Line ${line}, column ${column}: ${module.message}`, 'syntax');
    } catch (error) {
      if (error instanceof RangeError) this.#files.fault(path, 'It is nested too deeply.', 'syntax');
      else if (error instanceof TookTooLong) this.#files.fault(path, 'Its scripts take too long to parse.', 'syntax');
      else throw error;
    }
    return null;
  }

  #imported(specifier: string, from: string): Key | null {
    const address = this.#mapped(specifier);
    const isAddress = /^(?:\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(address);
    const key = isAddress ? this.#target(address, from) : null;
    const isElsewhere = this.#files.faults.some(({ path, keyword }) => path === from && keyword === 'origin');
    if (key === null && !isElsewhere)
      this.#files.fault(from, `It imports "${specifier}", and the app serves no such file.`, 'import');
    return key;
  }

  #mapped(specifier: string): string {
    const exact = Object.hasOwn(this.#imports, specifier) ? this.#imports[specifier] : undefined;
    if (typeof exact === 'string') return this.#rooted(exact);
    const prefix = Object.keys(this.#imports)
      .filter((name) => name.endsWith('/') && specifier.startsWith(name))
      .sort((a, b) => b.length - a.length)[0];
    const target = prefix === undefined ? undefined : this.#imports[prefix];
    return typeof target === 'string' && prefix !== undefined
      ? this.#rooted(target + specifier.slice(prefix.length))
      : specifier;
  }

  /** Addresses of an import map count from the page, wherever they are used. */
  #rooted(address: string): string {
    const found = this.#files.find(address, PAGE_FILE);
    return found === null ? address : this.#files.addressOf(found.path);
  }
}

function dataModule(json: string): string {
  return valueModule(`JSON.parse(${scriptJson(json)})`);
}

function valueModule(expression: string): string {
  return `[[], function* ($m) { let value; $m.export({ default: () => value }); yield; value = ${expression}; }]`;
}
