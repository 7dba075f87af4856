"""The services of this folder's tests: one of a kind for each process."""

from ridgeline.testing.services import fixtures

kafka = fixtures.kafka
mariadb = fixtures.mariadb
mosquitto = fixtures.mosquitto
moto = fixtures.moto
nats = fixtures.nats
postgres = fixtures.postgres
rabbitmq = fixtures.rabbitmq
redis = fixtures.redis
registry = fixtures.registry
seaweedfs = fixtures.seaweedfs
