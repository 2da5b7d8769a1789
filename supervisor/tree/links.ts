/** The supervisor's own socket: accepts workers, checks their tickets, and hands each connection to whoever expects it. */
import { chmodSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { type Frame, Kind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Link } from '../../protocol/wire/link.ts';
import { openTicket, type Ticket } from '../../protocol/wire/ticket.ts';

/** What takes the frames of a connection after its hello. */
export type LinkOwner = {
  onFrame(frame: Frame): void;
  onClose(error: Error | null): void;
};

/** Answers who owns the connection, or null when nobody expects it (any more). */
export type Welcome = (ticket: Ticket, link: Link) => LinkOwner | null;

export class LinkServer {
  readonly #key: Buffer;
  readonly #welcome: Welcome;
  readonly #onBadPeer: (why: string) => void;
  readonly #links = new Set<Link>();
  #server: Server | null = null;

  constructor(key: Buffer, welcome: Welcome, onBadPeer: (why: string) => void) {
    this.#key = key;
    this.#welcome = welcome;
    this.#onBadPeer = onBadPeer;
  }

  async listen(socketPath: string): Promise<void> {
    const server = createServer((socket) =>
      this.#accept(new Pending(socket, this.#key, this.#welcome, this.#onBadPeer)),
    );
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(socketPath, resolve);
    });
    // Accepting may fail for want of file handles; whoever wanted to connect tries again.
    server.on('error', (error) => this.#onBadPeer(error.message));
    chmodSync(socketPath, 0o600);
  }

  close(): void {
    this.#server?.close();
    for (const link of this.#links) link.close(new Error('The gateway stops.'));
  }

  #accept(pending: Pending): void {
    this.#links.add(pending.link);
    pending.onGone = () => this.#links.delete(pending.link);
  }
}

/** A connection that has to say hello before anything else. */
class Pending {
  readonly link: Link;
  onGone: () => void = () => {};
  readonly #timer: NodeJS.Timeout;
  #owner: LinkOwner | null = null;

  constructor(socket: import('node:net').Socket, key: Buffer, welcome: Welcome, onBadPeer: (why: string) => void) {
    this.#timer = setTimeout(() => this.link.close(new Error('No hello in time.')), LIMITS.helloMs);
    this.link = new Link(socket, {
      onFrame: (frame) => {
        if (this.#owner) {
          this.#owner.onFrame(frame);
          return;
        }
        const ticket = frame[0] === Kind.hello ? openTicket(frame[1], key) : null;
        this.#owner = ticket && welcome(ticket, this.link);
        clearTimeout(this.#timer);
        if (!this.#owner) this.link.close(new Error(ticket ? 'Unexpected connection.' : 'Not a valid ticket.'));
      },
      onClose: (error) => {
        clearTimeout(this.#timer);
        this.onGone();
        if (error) onBadPeer(error.message);
        this.#owner?.onClose(error);
      },
    });
  }
}
