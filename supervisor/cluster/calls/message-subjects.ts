/**
 * Says what a message to the MCP server of all apps is about: tools are called where the app is, and sessions stay at one node
 * (specification, "Calls between nodes").
 */
import { BUCKETS } from '../../../protocol/buckets.ts';
import { type Members, membersIn, textIn } from './body-members.ts';

/** The lists of what a caller may use: each node knows of its own apps. */
const LISTS = ['tools/list', 'resources/templates/list'];
const OF_APP = /^svc:\/\/([^/?#]+)\//;
/** The id of a question, which is open at the node that runs the call. */
const QUESTION = /^(\d{1,4})\.[0-9a-f-]{36}$/;

/** `members` are `method`, `id` and `params`; null where the body is no object. A number is a bucket. */
export function subjectOfMessage(members: Members | null): 'gateway' | 'every' | number | { app: string } {
  const method = textIn(members, 'method');
  if (method === null) {
    const [, bucket = BUCKETS] = QUESTION.exec(textIn(members, 'id') ?? '') ?? [];
    return Number(bucket) < BUCKETS ? Number(bucket) : 'gateway';
  }
  if (LISTS.includes(method)) return 'every';
  const params = membersIn(members?.get('params'), ['name', 'arguments', 'uri']);
  if (method === 'resources/read') {
    const [, app] = OF_APP.exec(textIn(params, 'uri') ?? '') ?? [];
    return app === undefined ? 'gateway' : { app };
  }
  if (method !== 'tools/call') return 'gateway';
  const given = membersIn(params?.get('arguments'), ['app', 'query', 'action']);
  const app = textIn(given, 'app');
  if (app !== null) return { app };
  // Where a member is wrong, any node says so.
  return textIn(params, 'name') === 'svc_describe' && (given?.size ?? 0) === 0 ? 'every' : 'gateway';
}
