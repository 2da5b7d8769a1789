/**
 * Runs the `svc` commands of shell scripts in this process, because most take a tenth of the time that Node takes to
 * start. Commands that stay, and those that start processes themselves, are the built executable.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { svc } from './command-line.ts';

/** The character that ends a request; a command line that has it does not come from a document. */
const END = '\u0001';

const server = createServer((socket) => {
  let asked = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    asked += chunk;
    if (asked.endsWith(END)) void answer(asked.slice(0, -1), socket);
  });
}).listen(0, '127.0.0.1');
await once(server, 'listening');
server.unref();

/** A script for PATH, as `svc`; it has the environment variables HOME and SVC_* of the shell that runs it. */
export const COMMAND_SCRIPT = `#!/usr/bin/env bash
case "$*" in serve* | mcp* | test* | *--test*) exec node $NODE_FLAGS "$(dirname "$0")/../bin/svc.js" "$@" ;; esac
exec 3<> /dev/tcp/127.0.0.1/${(server.address() as AddressInfo).port}
{
  printf '%s\\0' "$PWD"
  cat
  for name in HOME "\${!SVC_@}"; do printf '\\0%s=%s' "$name" "\${!name}"; done
  printf '\\0'
  (($# == 0)) || printf '\\0%s' "$@"
  printf '\\1'
} >&3
IFS= read -r -d '' code <&3
IFS= read -r -d '' errors <&3
printf '%s' "$errors" >&2
cat <&3
exit "$code"
`;

/** Answers the folder, the standard input, the environment, an empty word and the arguments with what the command did. */
async function answer(asked: string, socket: Socket): Promise<void> {
  const [cwd = '', stdin = '', ...words] = asked.split('\0');
  const end = words.indexOf('');
  const env = Object.fromEntries(words.slice(0, end).map((word) => word.split(/=(.*)/s, 2)));
  const { code, stdout, stderr } = await svc(words.slice(end + 1), { env, cwd, stdin });
  socket.end(`${code}\0${stderr}\0${stdout}`);
}
