/** Reads the members of an automation's file one by one and collects what is wrong with them. Pure. */
import type { AutomationIssue, AutomationIssueCode } from '../automation.ts';

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `parent` is the path of the object, empty for the file itself. */
export function fieldPath(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`;
}

/** One object of the file. A field that is wrong is reported and answered as if it were not there. */
export class Fields {
  readonly path: string;
  readonly #object: JsonObject;
  readonly #issues: AutomationIssue[];

  constructor(object: JsonObject, path: string, issues: AutomationIssue[]) {
    this.#object = object;
    this.path = path;
    this.#issues = issues;
  }

  /** Undefined when there is none of this name; what objects inherit does not count. */
  value(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? this.#object[name] : undefined;
  }

  /** `message` follows the name of the field. */
  report(code: AutomationIssueCode, name: string, message: string): void {
    this.#issues.push({ code, path: fieldPath(this.path, name), message });
  }

  requiredText(name: string): string {
    const value = this.value(name);
    if (value === undefined) this.report('missing_field', name, 'is required');
    else if (typeof value !== 'string') this.report('invalid_field', name, 'must be a string');
    else if (value.trim() === '') this.report('missing_field', name, 'must not be empty');
    else return value;
    return '';
  }

  /** May be empty only where `mayBeEmpty` says so. */
  text(name: string, mayBeEmpty = false): string | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'string') this.report('invalid_field', name, 'must be a string');
    else if (!mayBeEmpty && value.trim() === '') this.report('invalid_field', name, 'must not be empty');
    else return value;
    return undefined;
  }

  boolean(name: string): boolean | undefined {
    const value = this.value(name);
    if (value === undefined || typeof value === 'boolean') return value;
    this.report('invalid_field', name, 'must be true or false');
    return undefined;
  }

  amount(name: string): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    this.report('invalid_field', name, 'must be a number that is not negative');
    return undefined;
  }

  /** Names that are not empty and satisfy `isValid`; `what` says what they are. */
  texts(
    name: string,
    what: string,
    isValid: (text: string) => boolean = (text) => text.trim() !== '',
  ): string[] | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) {
      this.report('invalid_field', name, `must be an array of ${what}`);
      return undefined;
    }
    for (const [i, item] of value.entries()) {
      if (typeof item !== 'string' || !isValid(item))
        this.report('invalid_field', `${name}[${i}]`, `must be one of the ${what}`);
    }
    return value as string[];
  }

  /** An object that is not there, so that what it must have is missed by name. */
  absent(name: string): Fields {
    return new Fields({}, fieldPath(this.path, name), this.#issues);
  }

  /** Undefined when it is absent or no object. */
  object(name: string): Fields | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (isObject(value)) return new Fields(value, fieldPath(this.path, name), this.#issues);
    this.report('invalid_field', name, 'must be an object');
    return undefined;
  }
}
