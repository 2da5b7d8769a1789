/**
 * Checks the text of an `automation.json` (specification, "Automation manifest" and "Manifest validation errors"). Pure, with
 * the clock as an argument. Faults come in the order of the specification's table of fields, so that the first one is the same
 * every time: the text as a whole, `name`, `version`, `description`, `prompt`, `enabled`, `triggers`, `requires`, `apps`,
 * `costEstimate`, `outputSchema`, `onFailure`, `history`, `generated`; within a list by position.
 */
import {
  AUTOMATION_ID,
  type AutomationIssue,
  type AutomationManifest,
  type HistoryKeep,
  parseRef,
} from '../automation.ts';
import { isAppId } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import type { JsonSchema } from '../manifest.ts';
import { Fields, isObject, type JsonObject } from './automation-fields.ts';
import { checkTriggers } from './automation-triggers.ts';

export type ParsedAutomation = { manifest: AutomationManifest } | { issues: AutomationIssue[] };

export type ParseOptions = {
  /** As `checkTriggers` has it. */
  firesAfter: number | null;
  /** Bytes that the text may have, by default those of an upload. */
  maxBytes?: number;
};

const DEFAULT_VERSION = '0.1.0';
const DEFAULT_KEEP: HistoryKeep = { count: 100 };
/** `provider/model-id`; the id may have slashes of its own. */
const MODEL = /^[^/\s]+\/\S+$/;
const MOCK_PROVIDER = 'svc-mock';
const TIMESTAMP = /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** The manifest with its defaults, or everything that is wrong with it. Never throws. */
export function parseAutomation(
  text: string,
  { firesAfter, maxBytes = LIMITS.automationBytes }: ParseOptions,
): ParsedAutomation {
  const whole = parseText(text, maxBytes);
  if ('issues' in whole) return whole;
  const issues: AutomationIssue[] = [];
  const fields = new Fields(whole.file, '', issues);
  const name = fields.requiredText('name');
  const version = fields.text('version') ?? DEFAULT_VERSION;
  const description = fields.text('description', true);
  const prompt = fields.requiredText('prompt');
  const enabled = fields.boolean('enabled') ?? true;
  const triggers = checkTriggers(fields, issues, firesAfter);
  const requires = checkRequires(fields);
  const apps = fields.texts('apps', 'ids of apps', isAppId);
  const costEstimate = checkCost(fields);
  const outputSchema = checkOutputSchema(fields);
  const onFailure = checkOnFailure(fields);
  const history = checkHistory(fields);
  const generated = checkGenerated(fields);
  if (issues.length > 0) return { issues };
  const manifest: AutomationManifest = {
    name,
    version,
    ...(description === undefined ? {} : { description }),
    prompt,
    enabled,
    triggers,
    requires,
    ...(apps === undefined ? {} : { apps }),
    ...(costEstimate === undefined ? {} : { costEstimate }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(onFailure === undefined ? {} : { onFailure }),
    history,
    generated,
  };
  return { manifest };
}

function parseText(text: string, maxBytes: number): { file: JsonObject } | { issues: AutomationIssue[] } {
  const fault = (code: AutomationIssue['code'], message: string) => ({ issues: [{ code, path: '', message }] });
  if (Buffer.byteLength(text) > maxBytes) return fault('invalid_field', `is larger than ${maxBytes} bytes`);
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    return fault('invalid_json', `is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(file)) return fault('invalid_field', 'must be a JSON object');
  if (isDeeper(file, LIMITS.manifestDepth))
    return fault('invalid_field', `nests deeper than ${LIMITS.manifestDepth} levels`);
  return { file };
}

function isDeeper(node: unknown, levels: number): boolean {
  if (typeof node !== 'object' || node === null) return false;
  return levels === 0 || Object.values(node).some((member) => isDeeper(member, levels - 1));
}

function checkRequires(file: Fields): AutomationManifest['requires'] {
  const fields = file.object('requires');
  if (fields === undefined) return {};
  const mcps = fields.texts('mcps', 'names of MCP servers');
  const tools = fields.texts('tools', 'names of tools');
  const model = fields.text('model');
  if (model !== undefined) {
    const [provider = ''] = model.split('/', 1);
    if (provider.trim().toLowerCase() === MOCK_PROVIDER) {
      fields.report(
        'mock_model_disallowed',
        'model',
        `must not be of the provider "${MOCK_PROVIDER}", which is for tests`,
      );
    } else if (!MODEL.test(model)) {
      fields.report('invalid_field', 'model', 'must have the form "provider/model-id"');
    }
  }
  return {
    ...(mcps === undefined ? {} : { mcps }),
    ...(tools === undefined ? {} : { tools }),
    ...(model === undefined ? {} : { model }),
  };
}

function checkCost(file: Fields): AutomationManifest['costEstimate'] {
  const fields = file.object('costEstimate');
  if (fields === undefined) return undefined;
  const model = fields.text('model');
  const tokensPerFire = fields.amount('tokensPerFire');
  return { ...(model === undefined ? {} : { model }), ...(tokensPerFire === undefined ? {} : { tokensPerFire }) };
}

/** Its own keywords are judged where it is compiled. */
function checkOutputSchema(file: Fields): JsonSchema | undefined {
  const schema = file.value('outputSchema');
  if (schema === undefined) return undefined;
  const report = (path: string, message: string) => file.report('invalid_output_schema', path, message);
  if (!isObject(schema)) {
    report('outputSchema', 'must be a JSON Schema with "type": "object"');
    return undefined;
  }
  const member = (name: string) => (Object.hasOwn(schema, name) ? schema[name] : undefined);
  if (member('type') !== 'object') report('outputSchema.type', 'must be "object"');
  const properties = member('properties');
  if (isObject(properties)) {
    for (const [name, property] of Object.entries(properties)) {
      if (!isObject(property) && typeof property !== 'boolean')
        report(`outputSchema.properties.${name}`, 'must be a JSON Schema');
    }
  } else if (properties !== undefined) report('outputSchema.properties', 'must be an object of JSON Schemas');
  const required = member('required');
  if (Array.isArray(required)) {
    for (const [i, name] of required.entries())
      if (typeof name !== 'string') report(`outputSchema.required[${i}]`, 'must be a string');
  } else if (required !== undefined) report('outputSchema.required', 'must be an array of strings');
  return schema;
}

/** Whether it names this automation itself, or one that is not there, shows when it is to be fired. */
function checkOnFailure(file: Fields): string | undefined {
  const handle = file.value('onFailure');
  if (handle === undefined) return undefined;
  if (typeof handle === 'string' && (AUTOMATION_ID.test(handle) || parseRef(handle) !== null)) return handle;
  file.report('invalid_on_failure', 'onFailure', 'must be the id of an automation, or "<app id>/<id>" in another app');
  return undefined;
}

function checkHistory(file: Fields): { keep: HistoryKeep } {
  const fields = file.object('history');
  const keep = fields?.value('keep');
  if (keep === undefined) return { keep: DEFAULT_KEEP };
  if (isKeep(keep)) return { keep };
  fields?.report('invalid_history', 'keep', 'must be {"count": n}, {"days": n}, "all" or "errors", with n from 1');
  return { keep: DEFAULT_KEEP };
}

function isKeep(keep: unknown): keep is HistoryKeep {
  if (keep === 'all' || keep === 'errors') return true;
  if (!isObject(keep)) return false;
  const [[unit, amount] = [], ...others] = Object.entries(keep);
  return (
    others.length === 0 && (unit === 'count' || unit === 'days') && Number.isSafeInteger(amount) && Number(amount) >= 1
  );
}

function checkGenerated(file: Fields): AutomationManifest['generated'] {
  const fields = file.value('generated') === undefined ? file.absent('generated') : file.object('generated');
  if (fields === undefined) return { by: '', at: '' };
  const by = fields.requiredText('by');
  const at = fields.requiredText('at');
  if (at !== '' && !isTimestamp(at)) {
    fields.report('invalid_field', 'at', 'must be a time in ISO 8601, such as "2026-01-31T08:00:00Z"');
  }
  return { by, at };
}

/** A day that the calendar has, with or without a time; JavaScript alone takes 30 February for 2 March. */
function isTimestamp(text: string): boolean {
  const [, year, month, day] = TIMESTAMP.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  const time = text.replace(',', '.').replace(/([+-]\d{2})(\d{2})$/, '$1:$2');
  return !Number.isNaN(Date.parse(time)) && date.getUTCDate() === Number(day);
}
