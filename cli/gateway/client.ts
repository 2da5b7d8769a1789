/** The client of the gateway as commands use it: with the connection that they found, and files of this machine. */
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { type CallOptions, GatewayClient, type Request } from '../../protocol/http/client.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import type { Connection } from './connection.ts';
import { type NodeAnswer, NodeTransport } from './node-transport.ts';

export class Client extends GatewayClient<NodeAnswer> {
  readonly connection: Connection;

  constructor(connection: Connection) {
    super(new NodeTransport(connection));
    this.connection = connection;
  }

  get url(): string {
    return this.connection.url;
  }

  /** The bytes of an answer that is not JSON. */
  async bytesOf(request: Request): Promise<Buffer> {
    return (await this.open(request)).bytes();
  }

  /**
   * Writes an answer to a new file that only its owner may read. With POST, the gateway makes the content first, then
   * sends it. What `onChunk` throws ends it.
   */
  async download(
    request: Request,
    file: string,
    signal: AbortSignal,
    onChunk: (chunk: Buffer) => void = () => {},
  ): Promise<void> {
    const answer = await this.open({ ...request, timeoutMs: LIMITS.backupWaitMs, signal });
    const seen = async function* (): AsyncGenerator<Buffer> {
      for await (const chunk of answer.chunks()) {
        onChunk(chunk);
        yield chunk;
      }
    };
    try {
      // Created before anything can fail: a stream that opens it later could create it again after the cleanup.
      const target = await open(file, 'wx', 0o600);
      await pipeline(seen, target.createWriteStream(), { signal });
    } catch (error) {
      answer.close();
      signal.throwIfAborted();
      if (!(error instanceof UnreachableError)) throw error;
      throw new CommandError('The gateway ended before it had sent everything.', 'Check its log and try again.');
    }
  }
}

/** The options of a call whose body is a file: a gzipped archive, unless it has another type. */
export function ofFile(type = 'application/gzip', onSent?: CallOptions['onSent']): CallOptions {
  return { headers: { 'content-type': type }, onSent, timeoutMs: LIMITS.uploadTimeoutMs };
}
