/** A program of an agent: started without a shell in a process group of its own, read line by line, ended with all that it started. */
import type { SvcError } from '../../protocol/errors.ts';

export type ProgramOptions = {
  command: string;
  args: string[];
  cwd: string;
  /** All of its environment but for its tag. */
  env: Record<string, string>;
};

/** A program that speaks JSON in lines over its standard input and output. */
export interface AgentProgram {
  readonly pid: number;
  /** How it ended, for people; null while it runs. */
  readonly ended: string | null;
  /** The end of what it wrote to its standard error. */
  readonly said: string;
  /** Resolves when the pipe has room for more. */
  write(line: string): Promise<void>;
  /** Its lines, at the pace of the reader; ends with the program. Rejects for a line over `LIMITS.agentLineBytes`. */
  lines(): AsyncIterable<string>;
  /** Asks it to end by closing its input, then ends it and everything that it started, in the order that the limits give. */
  end(): Promise<void>;
  /** Why it is gone, as the error of the turn that it left. */
  failure(): SvcError;
}
