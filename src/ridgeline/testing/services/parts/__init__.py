"""Where the programs of services come from: jars of Maven, packages of Debian, wheels."""
