// A worker: one page, a loop of additions, and a value put into the store and asked back from it.
'use strict';

const fs = require('node:fs');
const express = require('express');
const { createClient } = require('redis');

const KEYS = 100001;
const FILLER = 'hello, world\n';
const IDLE_MS = 75000; // longer than a web server before it keeps an idle connection, so that it is the one to close

const PATIENCE_MS = 3000; // a command that was on its way when the store ended may never be answered

const config = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const page = FILLER.repeat(config.page_bytes / FILLER.length + 1).slice(0, config.page_bytes);
const counted = { requests: 0, connections: 0, failed: 0 };

function add(times) {
  let sum = 0;
  for (let number = 0; number < times; number += 1) sum += number;
  return sum;
}

async function keep(store) {
  const key = `key:${Math.floor(Math.random() * KEYS)}`;
  await store.set(key, key);
  if ((await store.get(key)) !== key) throw new Error(`the store has another value of ${key}`);
}

function refuse(response, message) {
  if (response.headersSent) return;
  counted.failed += 1;
  response.status(502).type('text').send(`${message}\n`);
}

async function open(address, port) {
  const store = createClient({ socket: { host: address, port }, disableOfflineQueue: true });
  store.on('error', (error) => process.stderr.write(`node-app: store: ${error.message || error}\n`));
  await store.connect();
  return store;
}

async function main() {
  const store = config.store ? await open(config.store, config.store_port) : null;
  const app = express();
  app.get('/.loadbook/config-id', (request, response) => response.type('text').send(config.config_id));
  app.use(async (request, response) => {
    if (store) response.setTimeout(PATIENCE_MS, () => refuse(response, 'store: no answer'));
    try {
      if (add(config.loop) < 0) throw new Error('a sum of numbers from 0 is never negative');
      if (store) await keep(store);
      if (!response.headersSent) response.type('html').send(page);
    } catch (error) {
      refuse(response, error.message);
    }
    counted.requests += 1;
  });
  const server = app.listen(config.port, config.address, (error) => { if (error) throw error; });
  server.keepAliveTimeout = IDLE_MS;
  server.on('connection', () => { counted.connections += 1; });
}

process.on('message', () => process.send(counted));
main();
