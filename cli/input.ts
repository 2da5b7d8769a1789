/** JSON given on the command line: written out, from a file (`@file`), or from standard input (`-`). */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { CommandError, UsageError } from './failure.ts';

export async function readJsonInput(argument: string, stdin: Readable, cwd: string): Promise<unknown> {
  const text = await readInputText(argument, stdin, cwd);
  try {
    return JSON.parse(text);
  } catch (error) {
    const from = argument === '-' ? 'Standard input' : argument.startsWith('@') ? argument.slice(1) : 'The input';
    throw new UsageError(`${from} is not valid JSON: ${(error as Error).message}.`, {
      hint: `Quote it for the shell: '{"text": "Milk"}', or use @file or - for standard input.`,
    });
  }
}

async function readInputText(argument: string, stdin: Readable, cwd: string): Promise<string> {
  if (argument === '-') {
    const chunks: Buffer[] = [];
    for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
    return Buffer.concat(chunks).toString();
  }
  if (!argument.startsWith('@')) return argument;
  try {
    return readFileSync(resolve(cwd, argument.slice(1)), 'utf8');
  } catch {
    throw new CommandError(`The file ${argument.slice(1)} cannot be read.`);
  }
}
