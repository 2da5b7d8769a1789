/** Programs that are connected by signing in, without a browser. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import type { Answer, TestGateway } from './gateway.ts';
import type { Origin } from './origins.ts';

const REDIRECT = 'http://127.0.0.1/callback';

/** A verifier and its challenge. */
export function pkce(): { verifier: string; challenge: string } {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
}

/** What a program posts as a form. */
export function postForm(gateway: TestGateway, path: string, form: Record<string, string>): Promise<Answer> {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return gateway.call('POST', path, { token: null, headers, body: new URLSearchParams(form).toString() });
}

/** A program that registers and is connected to an MCP address by who is signed in at the console. */
export async function connectProgram(gateway: TestGateway, origin: Origin, path: string) {
  const metadata = { client_name: 'Program', redirect_uris: [REDIRECT] };
  const registered = await gateway.call('POST', '/svc/_oauth/register', { token: null, body: metadata });
  const client: string = registered.json.client_id;
  const { verifier, challenge } = pkce();
  const asked = { client_id: client, redirect_uri: REDIRECT, response_type: 'code', resource: gateway.url + path };
  const query = `${new URLSearchParams({ ...asked, code_challenge: challenge, code_challenge_method: 'S256' })}`;
  const agreed = await origin.call('POST', '/svc/_oauth/consent', { body: { query, role: 'viewer' } });
  assert.equal(agreed.status, 201, agreed.text);
  const code = new URL(agreed.json.url).searchParams.get('code') ?? '';
  const form = { code, client_id: client, redirect_uri: REDIRECT, code_verifier: verifier };
  const given = await postForm(gateway, '/svc/_oauth/token', { grant_type: 'authorization_code', ...form });
  assert.equal(given.status, 200, given.text);
  const { access_token: access, refresh_token: refresh } = given.json;
  return { client, code, access: String(access), refresh: String(refresh), form };
}
