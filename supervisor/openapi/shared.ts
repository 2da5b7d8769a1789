/** What both kinds of OpenAPI documents have in common: version, servers, the shape of errors, how callers authenticate. */
import { ERROR_CODES } from '../../protocol/errors.ts';
import { PAGE_KEY_HEADER } from '../../protocol/http/page-key.ts';

export type Json = { [member: string]: unknown };

/** The server is the one that the document came from. */
export const HEADER = {
  openapi: '3.1.0',
  jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
  servers: [{ url: '/' }],
} as const;

/** Either the token, or both parts of a session. */
export const SECURITY = [{ bearer: [] }, { session: [], pageKey: [] }];

const ERROR = {
  type: 'object',
  required: ['isError', 'error'],
  properties: {
    isError: { const: true },
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { enum: Object.keys(ERROR_CODES), description: 'It is stable; the message is for people.' },
        message: { type: 'string' },
        path: { type: 'string', description: 'The wrong value or file.' },
        issues: { type: 'array', items: { type: 'object' } },
        files: { type: 'array', items: { type: 'string' } },
      },
    },
  },
};

export const ERROR_CONTENT = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };

export const COMPONENTS = {
  schemas: { Error: ERROR },
  responses: { Error: { description: 'Any other error.', content: ERROR_CONTENT } },
  securitySchemes: {
    bearer: {
      type: 'http',
      scheme: 'bearer',
      description: 'The access token of the gateway (`svc token`), or a token for programs (`svc token create`).',
    },
    session: {
      type: 'apiKey',
      in: 'cookie',
      name: '__Host-svc_session',
      description: 'The cookie of a browser that is signed in, for pages of the same origin.',
    },
    pageKey: {
      type: 'apiKey',
      in: 'header',
      name: PAGE_KEY_HEADER,
      description: 'The page key that the page of a session keeps beside its cookie.',
    },
  },
} as const;
