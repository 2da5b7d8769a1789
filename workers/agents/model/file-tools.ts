/** Defines the file tools of models without a program, for the files of a draft. */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DraftFiles } from './draft-files.ts';

/** One of our tools; the model gets the errors that it throws. */
type LocalTool = {
  name: string;
  description: string;
  /** A JSON Schema. */
  input: Record<string, unknown>;
  run(args: unknown, files: DraftFiles): string | Promise<string>;
};

const PATH = { type: 'string', description: 'Path relative to the folder of the app, such as queries/list.js' };

export const FILE_TOOLS: LocalTool[] = [
  {
    name: 'list',
    description: 'Lists the files of the app with their sizes in bytes.',
    input: schemaOf({}),
    run: (_args, files) => {
      const all = files.list();
      const shown = all.slice(0, LIMITS.agentListedFiles).map(({ path, size }) => `${path} (${size})`);
      if (all.length > shown.length) shown.push(`and ${all.length - shown.length} more`);
      return shown.join('\n') || 'The app has no files yet.';
    },
  },
  {
    name: 'read',
    description: 'Reads a text file, or some lines of it.',
    input: schemaOf(
      { path: PATH, from: { type: 'integer', minimum: 1 }, lines: { type: 'integer', minimum: 1 } },
      'from',
      'lines',
    ),
    run: (args, files) => files.read(textOf(args, 'path'), numberOf(args, 'from'), numberOf(args, 'lines')),
  },
  {
    name: 'write',
    description: 'Writes a whole text file. To change a part of a file, use edit.',
    input: schemaOf({ path: PATH, text: { type: 'string' } }),
    run: async (args, files) => {
      await files.write(textOf(args, 'path'), textOf(args, 'text'));
      return 'Written.';
    },
  },
  {
    name: 'edit',
    description:
      'Replaces a piece of a text file. The piece must be there exactly once, with its spaces and line ends.',
    input: schemaOf({ path: PATH, before: { type: 'string' }, after: { type: 'string' } }),
    run: async (args, files) => {
      await files.edit(textOf(args, 'path'), textOf(args, 'before'), textOf(args, 'after'));
      return 'Edited.';
    },
  },
  {
    name: 'delete',
    description: 'Deletes a file.',
    input: schemaOf({ path: PATH }),
    run: async (args, files) => {
      await files.delete(textOf(args, 'path'));
      return 'Deleted.';
    },
  },
  {
    name: 'rename',
    description: 'Renames a file, or moves it to another folder. There must be no file at the new path.',
    input: schemaOf({ from: PATH, to: PATH }),
    run: async (args, files) => {
      await files.rename(textOf(args, 'from'), textOf(args, 'to'));
      return 'Renamed.';
    },
  },
  {
    name: 'search',
    description: 'Finds the lines of all text files that have a text, upper and lower case alike. No patterns.',
    input: schemaOf({ text: { type: 'string', minLength: 1 } }),
    run: async (args, files) => (await files.search(textOf(args, 'text'))).join('\n') || 'Nothing has that text.',
  },
];

function schemaOf(properties: Record<string, object>, ...optional: string[]): Record<string, unknown> {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', properties, required, additionalProperties: false };
}

function memberOf(args: unknown, name: string): unknown {
  return typeof args === 'object' && args !== null ? (args as Record<string, unknown>)[name] : undefined;
}

function textOf(args: unknown, name: string): string {
  const value = memberOf(args, name);
  if (typeof value !== 'string') throw new SvcError('BAD_REQUEST', `"${name}" must be a text.`);
  return value;
}

function numberOf(args: unknown, name: string): number | undefined {
  const value = memberOf(args, name);
  if (value === undefined || value === null) return undefined;
  if (!Number.isInteger(value) || (value as number) < 1)
    throw new SvcError('BAD_REQUEST', `"${name}" must be a whole number from 1 on.`);
  return value as number;
}
