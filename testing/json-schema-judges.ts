/** Two judges of the same schemas: ours, on the path of an app's contract, and `@hyperjump/json-schema`. */
import {
  registerSchema,
  type SchemaObject,
  setShouldValidateFormat,
  unregisterSchema,
  type Validator,
  validate,
} from '@hyperjump/json-schema/draft-2020-12';
import '@hyperjump/json-schema/draft-2019-09';
import '@hyperjump/json-schema/draft-07';
import '@hyperjump/json-schema/formats';
import type { Json } from '@hyperjump/json-pointer';
import { SvcError } from '../protocol/errors.ts';
import type { JsonSchema } from '../protocol/manifest.ts';
import { checkManifest } from '../protocol/rules/manifest-check.ts';
import { loadValidators } from '../workers/handler/load-validators.ts';
import { checkInput } from '../workers/handler/validators.ts';
import { compileValidators } from '../workers/jobs/compile-validators.ts';
import { type Group, readRemotes } from './json-schema-suite.ts';

export type Verdict = 'valid' | 'invalid' | 'refused';
/** A judge's results for the cases of a group, in order; `reason` if it refuses the schema. */
export type Judgement = { verdicts: Verdict[]; reason: string | null; code: string | null };

const DRAFTS = 'https://json-schema.org/draft';
const TOOL = 'judge';

/** The text of an `app.json` whose only query has this schema. */
export function manifestWith(schema: JsonSchema): string {
  return JSON.stringify({ id: 'suite', name: 'Suite', version: '1', queries: [{ name: TOOL, input: schema }] });
}

/** Checks the manifest and compiles the schema like an upload; loads and calls it like the app's thread. */
export function judgeOurs({ schema, tests }: Group): Judgement {
  let validators: ReturnType<typeof loadValidators>;
  try {
    validators = loadValidators(compileValidators(checkManifest(manifestWith(schema), 'suite')));
  } catch (error) {
    return refusal(tests.length, error);
  }
  const verdicts = tests.map(({ data }): Verdict => {
    try {
      checkInput(validators.queries, TOOL, data);
      return 'valid';
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'INVALID_INPUT') throw error;
      return 'invalid';
    }
  });
  return { verdicts, reason: null, code: null };
}

/** The other implementation, with the suite's remote schemas. Formats count in the suite's files about formats. */
export class Hyperjump {
  #groups = 0;

  constructor() {
    for (const { uri, schema } of readRemotes()) registerSchema(schema as SchemaObject, uri, dialectOf(uri));
  }

  async judge({ file, schema, tests }: Group): Promise<Judgement> {
    const uri = `https://suite.example/${++this.#groups}`;
    setShouldValidateFormat(file.startsWith('optional/format/'));
    // It prints faults of host names to the console.
    const { log } = console;
    console.log = () => {};
    try {
      registerSchema(schema as SchemaObject, uri, `${DRAFTS}/2020-12/schema`);
      const judge: Validator = await validate(uri);
      const verdicts = tests.map(({ data }): Verdict => (judge(data as Json).valid ? 'valid' : 'invalid'));
      return { verdicts, reason: null, code: null };
    } catch (error) {
      return refusal(tests.length, error);
    } finally {
      console.log = log;
      unregisterSchema(uri);
    }
  }
}

function refusal(cases: number, error: unknown): Judgement {
  const { message } = error as Error;
  return {
    verdicts: new Array<Verdict>(cases).fill('refused'),
    reason: message,
    code: error instanceof SvcError ? error.code : null,
  };
}

function dialectOf(uri: string): string {
  if (uri.includes('/draft2019-09/')) return `${DRAFTS}/2019-09/schema`;
  return uri.includes('/draft7/') ? 'http://json-schema.org/draft-07/schema' : `${DRAFTS}/2020-12/schema`;
}
