// Runs the scheme adapter of the reference on free ports of the loopback interface, and prints
// them. It is configured by its own environment variables.
'use strict';

const net = require('net');

// The adapter listens on all interfaces.
const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (port, ...rest) {
    return listen.call(this, port, '127.0.0.1', ...rest);
};

const config = require('@mojaloop/sdk-scheme-adapter/src/config');
const { Server } = require('@mojaloop/sdk-scheme-adapter');
const { Logger } = require('@mojaloop/sdk-standard-components');

const logger = new Logger.Logger({
    stringify: Logger.buildStringify({ space: 0 }),
    opts: { transports: [line => process.stderr.write(`${line}\n`)] },
});
const server = new Server(config, logger);
const fail = error => {
    console.error(error);
    process.exit(1);
};
server.on('error', fail);
process.on('SIGTERM', () => process.exit(0));
server.start().then(() => {
    const on = part => `127.0.0.1:${part._server.address().port}`;
    const { outboundServer, inboundServer, metricsServer } = server;
    console.log(`adapter: ready; back ends on ${on(outboundServer)}, ` +
        `hub on ${on(inboundServer)}, health on ${on(metricsServer)}`);
    // The test reads this line only; a full pipe would stop the process.
    process.stdout.write = process.stderr.write.bind(process.stderr);
}, fail);
