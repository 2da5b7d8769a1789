/** The connecting side of a `Link`, by a socket that is read past Node's streams: they cost more than all we do with a frame. */
import { connect } from 'node:net';
import { Link, type LinkHandlers } from './link.ts';

/** What is read at a time, as much as Node reads by itself. */
const READ_BYTES = 64 * 1024;

/** A connection to the Unix socket at `socketPath`. One that cannot be made is reported through `onClose`. */
export function connectLink(socketPath: string, handlers: LinkHandlers): Link {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const callback = (length: number): boolean => {
    // A copy: the buffer is used again, and what is in a frame may be kept.
    const chunk = Buffer.allocUnsafe(length);
    buffer.copy(chunk, 0, 0, length);
    link.receive(chunk);
    return true;
  };
  const link = new Link(connect({ path: socketPath, onread: { buffer, callback } }), handlers);
  return link;
}
