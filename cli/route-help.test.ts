import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { routeDocuments } from './route-help.ts';

test('every route is there, with what it takes', () => {
  const routes = routeDocuments();
  assert.equal(routes.length, RESOURCES.flatMap(({ rows }) => rows).length);
  assert.deepEqual(
    routes.find(({ path, method }) => method === 'PUT' && path === '/svc/_apps/:id/secrets/:name'),
    {
      method: 'PUT',
      path: '/svc/_apps/:id/secrets/:name',
      draftPath: '/svc/_draft/:sid/_apps/:id/secrets/:name',
      right: 'manage',
      title: 'Set a secret',
      parameters: [
        { name: 'id', in: 'path', required: true, description: 'The id of the app', schema: { type: 'string' } },
        {
          name: 'name',
          in: 'path',
          required: true,
          description: "The secret's name: letters, digits and `_`, no digit first, at most 64 characters",
          schema: { type: 'string' },
        },
      ],
      body: {
        required: true,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              properties: { value: { type: 'string', description: 'a text of 1 byte to 64 KiB' } },
              required: ['value'],
            },
          },
        },
      },
      errors: ['INVALID_ID', 'RESERVED_ID', 'UNKNOWN_APP', 'SECRET_UNREADABLE', 'CONFLICT', 'STORAGE_FULL'],
    },
  );
});
