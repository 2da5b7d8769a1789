/** Listens on the supervisor's own socket: accepts workers, checks their tickets, and passes each connection to its owner. */
import { chmodSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { LIMITS } from '../../protocol/limits.ts';
import { Kind } from '../../protocol/wire/frames.ts';
import { Link, type LinkHandlers } from '../../protocol/wire/link.ts';
import { openTicket, type Ticket } from '../../protocol/wire/ticket.ts';

export class LinkServer {
  readonly #key: Buffer;
  readonly #welcome: (ticket: Ticket, link: Link) => LinkHandlers | null;
  readonly #onBadPeer: (why: string) => void;
  readonly #links = new Set<Link>();
  #server: Server | null = null;

  /** `welcome` answers who owns a connection, or null when it is not expected. */
  constructor(
    key: Buffer,
    welcome: (ticket: Ticket, link: Link) => LinkHandlers | null,
    onBadPeer: (why: string) => void,
  ) {
    this.#key = key;
    this.#welcome = welcome;
    this.#onBadPeer = onBadPeer;
  }

  async listen(socketPath: string): Promise<void> {
    const server = createServer((socket) => this.#accept(socket));
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(socketPath, resolve);
    });
    // Accepting may fail for want of file handles; the peer tries again.
    server.on('error', (error) => this.#onBadPeer(error.message));
    chmodSync(socketPath, 0o600);
  }

  close(): void {
    this.#server?.close();
    for (const link of this.#links) link.close(new Error('The gateway stops.'));
  }

  /** A connection has to say hello before anything else. */
  #accept(socket: Socket): void {
    const timer = setTimeout(() => link.close(new Error('No hello in time.')), LIMITS.helloMs);
    let owner: LinkHandlers | null = null;
    const handlers: LinkHandlers = {
      onFrame: (frame) => {
        clearTimeout(timer);
        const ticket = frame[0] === Kind.hello ? openTicket(frame[1], this.#key) : null;
        owner = ticket && this.#welcome(ticket, link);
        // From now on its frames go straight to the owner.
        if (owner) handlers.onFrame = owner.onFrame.bind(owner);
        else link.close(new Error(ticket ? 'Unexpected connection.' : 'Not a valid ticket.'));
      },
      onClose: (error) => {
        clearTimeout(timer);
        this.#links.delete(link);
        // The owner of a process reports its end; the system's errors on its connections add nothing.
        if (error && !('syscall' in error)) this.#onBadPeer(error.message);
        owner?.onClose(error, link);
      },
    };
    const link = new Link(socket, handlers);
    this.#links.add(link);
  }
}
