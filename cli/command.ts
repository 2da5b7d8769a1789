/** What a command is, and what it is given when it runs. */
import type { ArgumentSpec, Arguments } from './arguments.ts';
import type { Client } from './gateway/client.ts';
import type { Surroundings } from './gateway/data-directory.ts';
import type { Terminal } from './terminal/terminal.ts';

export type CommandContext = Surroundings & {
  args: Arguments;
  terminal: Terminal;
  /**
   * The client for the gateway that the options and surroundings name; with `again` they are looked at once more, since a
   * gateway may come back elsewhere. Throws `UnreachableError` when none is known.
   */
  connect(again?: boolean): Client;
  /** The data directory that the options and surroundings name, whether or not it exists. */
  dataDirectory: string;
};

/** Does the work; the number is the exit code, nothing is 0. */
export type RunCommand = (context: CommandContext) => Promise<number> | Promise<void>;

export type Command = ArgumentSpec & {
  group: 'Gateway' | 'Apps' | 'Drafts' | 'Data' | 'Automations';
  summary: string;
  /** It goes on when nobody takes what it prints. */
  outlivesOutput?: true;
  /** Paragraphs for `svc help <command>`. */
  details?: string[];
  examples?: string[];
  /** Commands are loaded when they run, so that none pays for the others. */
  load(): Promise<{ run: RunCommand }>;
};
