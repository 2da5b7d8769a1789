/** The disk below a gateway's data directory, which `powercut.c` can make full, failing, or without power. */
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../random.ts';
import { pause } from '../waiting.ts';
import { compileShim } from './compile.ts';
import { emptyFolder, type Survival, type TakenBack, takeBack } from './journal.ts';

/** Bits of `faults` in powercut.c. */
export const FAULT = { full: 1, writeEio: 2, syncEio: 4, short: 8, readEio: 16 } as const;
export type Fault = keyof typeof FAULT;

/** Byte offsets in `struct control` of powercut.c. */
const AT = {
  journalling: 0,
  halted: 4,
  faults: 8,
  syncDelayUs: 12,
  hits: { full: 16, writeEio: 20, syncEio: 24, short: 28, readEio: 32 },
  only: 64,
  onlyBytes: 64,
  ready: 128,
  end: 144,
} as const;
const CONTROL_BYTES = 4096;

export class FaultyDisk {
  /** For the environment of the first process; the programs that it starts inherit it. */
  readonly env: Record<string, string>;
  readonly #root: string;
  readonly #folder: string;
  readonly #control: number;

  /**
   * Compiles the shim into `folder`, which must be new, on the file system of `root` and outside of it. `root` is
   * created.
   */
  constructor(root: string, folder: string) {
    mkdirSync(root, { recursive: true });
    mkdirSync(folder, { recursive: true });
    this.#root = realpathSync(root);
    this.#folder = realpathSync(folder);
    const library = join(this.#folder, 'powercut.so');
    compileShim('powercut.c', library);
    writeFileSync(join(this.#folder, 'control'), Buffer.alloc(CONTROL_BYTES));
    this.#control = openSync(join(this.#folder, 'control'), 'r+');
    mkdirSync(join(this.#folder, 'keep'));
    this.env = { LD_PRELOAD: library, POWERCUT_ROOT: this.#root, POWERCUT_DIR: this.#folder, UV_USE_IO_URING: '0' };
  }

  /**
   * From now on a power cut reverts everything that was not synced. Each fsync takes up to `syncDelayUs` microseconds.
   */
  keepJournal(syncDelayUs: number): void {
    this.#set(AT.syncDelayUs, syncDelayUs);
    this.#set(AT.journalling, 1);
  }

  /** Sets faults for paths that contain `only`, or for all, until the next call; without faults the disk works. */
  strike(faults: Fault[], only = ''): void {
    const text = Buffer.alloc(AT.onlyBytes);
    text.write(only, 0, AT.onlyBytes - 1);
    this.#set(AT.faults, 0);
    writeSync(this.#control, text, 0, text.length, AT.only);
    this.#set(
      AT.faults,
      faults.reduce((bits, fault) => bits | FAULT[fault], 0),
    );
  }

  /** How often this kind of fault occurred since the disk was created. */
  hits(fault: Fault): number {
    return this.#get(AT.hits[fault]);
  }

  /**
   * From one instant on nothing reaches the disk; then every process on it is killed and everything that was not
   * durable is reverted. Afterwards the disk is ready for the next daemon.
   */
  async cutPower(survival: Survival, random: Random): Promise<TakenBack> {
    this.#set(AT.halted, 1);
    await this.#killAll();
    const journal = join(this.#folder, 'journal');
    const keepDir = join(this.#folder, 'keep');
    const end = this.#get(AT.end);
    const taken = takeBack({ root: this.#root, keepDir, journal, end }, survival, random);
    emptyFolder(keepDir);
    truncateSync(journal);
    this.#set(AT.end, 0);
    // The lock's holder may have died with it; the next daemon creates it again.
    this.#set(AT.ready, 0);
    this.#set(AT.halted, 0);
    return taken;
  }

  close(): void {
    closeSync(this.#control);
  }

  /** The processes that have this disk in their environment. */
  async #killAll(): Promise<void> {
    const mark = `POWERCUT_DIR=${this.#folder}\0`;
    for (let pids = processesWith(mark); pids.length > 0; pids = processesWith(mark)) {
      for (const pid of pids) kill(pid);
      await pause(2);
    }
  }

  #set(offset: number, value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    writeSync(this.#control, bytes, 0, 4, offset);
  }

  #get(offset: number): number {
    const bytes = Buffer.alloc(4);
    readSync(this.#control, bytes, 0, 4, offset);
    return bytes.readUInt32LE();
  }
}

function processesWith(mark: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && environmentOf(pid).includes(mark));
}

/** Empty for a process that is gone, dead but not reaped, or another user's. */
function environmentOf(pid: number): string {
  try {
    return `${readFileSync(`/proc/${pid}/environ`, 'latin1')}\0`;
  } catch {
    return '';
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
