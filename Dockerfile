# syntax=docker/dockerfile:1
# The gateway as an image: docker build -t svc . (docs/operations.md, "Docker").
ARG NODE=24

# The large image has what compiles a package for which there is no binary.
FROM node:${NODE}-bookworm AS build
WORKDIR /svc
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build && npm prune --omit=dev
# The fast edge comes with 110 MiB of binaries for all systems: the one of this Node stays. Then SQLite has to load.
RUN find node_modules/uWebSockets.js -name 'uws_*.node' ! -name "uws_linux_$(node -p 'process.arch + "_" + process.versions.modules').node" -delete \
  && node bin/svc.js doctor --data-dir /tmp/doctor

FROM node:${NODE}-bookworm-slim
# Programs of agents may leave processes behind, which nobody but the first process can end for good; Node does not.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production SVC_DATA_DIR=/data
WORKDIR /svc
COPY --from=build /svc/package.json /svc/LICENSE /svc/SECURITY.md /svc/CHANGELOG.md ./
COPY --from=build /svc/node_modules ./node_modules
COPY --from=build /svc/bin ./bin
COPY --from=build /svc/schemas ./schemas
COPY --from=build /svc/docs ./docs
COPY --from=build /svc/dist ./dist
RUN ln -s /svc/bin/svc.js /usr/local/bin/svc && install -d -o node -g node -m 700 /data
USER node
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m CMD ["node", "-e", "fetch('http://127.0.0.1:8787/svc/_health').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# The gateway ends its calls within 10 seconds of SIGTERM, which is as long as docker stop waits: give it 30.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--"]
CMD ["svc", "serve", "--host", "0.0.0.0"]
